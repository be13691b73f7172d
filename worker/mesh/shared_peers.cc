#include "worker/mesh/shared_peers.h"

#include <poll.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/assert.h"
#include "common/ticks.h"
#include "worker/mesh/handshake.h"

namespace paceline::mesh {
namespace {

// Of vectors elsewhere: what ranks tell each other of their measurements.
constexpr std::int64_t kThroughFloats = 32 * 1024;
constexpr std::size_t kLine = 64;

}  // namespace

// Written by its rank, read by all.
struct alignas(kLine) SharedPeers::Board {
  std::uint32_t asleep = 0;
};

// From one rank to one other.
struct alignas(kLine) SharedPeers::Note {
  std::uint64_t offered = 0;
  std::uint64_t taken = 0;
  struct Row {
    RowHead head;
    std::int64_t offset = 0;  // in the segment
  };
  std::array<Row, kOffersMax> rows = {};  // the newest
};

// As it is sent.
struct SharedPeers::Offer {
  wire::SegmentRef segment;
  std::int64_t board = 0;  // where it lies
};

namespace {

std::int64_t board_bytes(std::size_t ranks, std::size_t board, std::size_t note) {
  return static_cast<std::int64_t>(board + ranks * note);
}

// All of a small message that is on its way.
Status receive_all(Connection& connection, void* into, std::size_t bytes, const std::string& who,
                   const StopFlag& stop, Ticks until) {
  auto* const at = static_cast<char*>(into);
  for (std::size_t got = 0; got < bytes;) {
    const Result<std::size_t> now = connection.receive(at + got, bytes - got);
    if (!now.is_ok()) return unavailable(who + " " + now.status().message());
    got += *now;
    if (*now > 0) continue;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - steady_now());
    if (left.count() <= 0) return deadline_exceeded(who + " has not reported whether it shares memory");
    std::array<pollfd, 2> waits = {{{connection.descriptor(), POLLIN, 0}, {stop.descriptor(), POLLIN, 0}}};
    poll(waits.data(), waits.size(), static_cast<int>(left.count()));
    if (stop.is_set()) return aborted("stopped");
  }
  return Status::ok();
}

// So little that there is room for it.
Status send_all(Connection& connection, const void* bytes, std::size_t size, const std::string& who) {
  const iovec piece{const_cast<void*>(bytes), size};
  const Result<std::size_t> sent = connection.send({&piece, 1});
  if (!sent.is_ok()) return unavailable(who + " " + sent.status().message());
  return *sent == size ? Status::ok() : unavailable(who + " takes nothing");
}

}  // namespace

std::int64_t SharedPeers::segment_bytes(std::int64_t floats, std::size_t ranks) {
  const auto size = static_cast<std::int64_t>(sizeof(float));
  // Two boards: the next formation's is there before the last one's is gone.
  return (floats + kThroughFloats) * size + 2 * board_bytes(ranks, sizeof(Board), sizeof(Note)) +
         static_cast<std::int64_t>(8 * kLine);
}

SharedPeers::SharedPeers(std::uint32_t rank, std::size_t ranks, std::shared_ptr<wire::SharedSegment> segment)
    : rank_(rank), ranks_(ranks), segment_(std::move(segment)), peers_(ranks) {
  if (segment_ == nullptr) return;
  const auto bytes = static_cast<std::size_t>(board_bytes(ranks, sizeof(Board), sizeof(Note)));
  void* const memory = segment_->allocate(bytes, kLine);
  board_ = new (memory) Board();
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    peers_[peer].outbound =
        new (static_cast<std::byte*>(memory) + sizeof(Board) + peer * sizeof(Note)) Note();
  }
  through_ = {static_cast<float*>(segment_->allocate(kThroughFloats * sizeof(float), kLine)),
              static_cast<std::size_t>(kThroughFloats)};
}

SharedPeers::~SharedPeers() {
  if (segment_ == nullptr) return;
  segment_->deallocate(board_, static_cast<std::size_t>(board_bytes(ranks_, sizeof(Board), sizeof(Note))),
                       kLine);
  segment_->deallocate(through_.data(), through_.size_bytes(), kLine);
}

Result<std::unique_ptr<SharedPeers>> SharedPeers::agree(
    const Place& place, const std::vector<std::unique_ptr<Connection>>& connections,
    std::shared_ptr<wire::SharedSegment> segment, const StopFlag& stop, std::chrono::milliseconds within) {
  std::unique_ptr<SharedPeers> peers(new SharedPeers(place.rank, connections.size(), std::move(segment)));
  const Ticks until = steady_now() + within;
  const std::vector<std::uint32_t> machines = machines_of(place);
  std::vector<std::uint32_t> here;
  for (std::uint32_t rank = 0; rank < connections.size(); ++rank) {
    if (rank != place.rank && machines[rank] == machines[place.rank]) here.push_back(rank);
  }
  const Offer own = peers->own_offer();
  for (const std::uint32_t rank : here) {
    PACELINE_RETURN_IF_ERROR(send_all(*connections[rank], &own, sizeof own, name_of(place, rank)));
  }
  for (const std::uint32_t rank : here) {
    Offer offer;
    PACELINE_RETURN_IF_ERROR(
        receive_all(*connections[rank], &offer, sizeof offer, name_of(place, rank), stop, until));
    const char mapped = peers->map(rank, offer, *connections[rank]) ? 1 : 0;
    PACELINE_RETURN_IF_ERROR(send_all(*connections[rank], &mapped, 1, name_of(place, rank)));
  }
  for (const std::uint32_t rank : here) {
    char mapped = 0;
    PACELINE_RETURN_IF_ERROR(receive_all(*connections[rank], &mapped, 1, name_of(place, rank), stop, until));
    if (mapped == 0) peers->peers_[rank].segment = nullptr;
    peers->any_ = peers->any_ || peers->with(rank);
  }
  return peers;
}

SharedPeers::Offer SharedPeers::own_offer() const {
  if (segment_ == nullptr) return {};
  const auto at = segment_->offset_of(reinterpret_cast<const std::byte*>(board_), sizeof(Board));
  const auto through =
      segment_->offset_of(reinterpret_cast<const std::byte*>(through_.data()), through_.size_bytes());
  return at && through ? Offer{segment_->ref(), *at} : Offer{};  // else there was no room
}

bool SharedPeers::map(std::uint32_t rank, const Offer& offer, Connection& connection) {
  // All ranks have as many floats, so a larger segment is none of this run's.
  const std::int64_t own_bytes = own_offer().segment.bytes;
  if (offer.segment.bytes == 0 || own_bytes == 0 || offer.segment.bytes > own_bytes) return false;
  auto mapped = wire::MappedSegment::map(offer.segment, own_bytes);
  const std::int64_t bytes = board_bytes(ranks_, sizeof(Board), sizeof(Note));
  if (!mapped.is_ok() || offer.board < 0 || offer.board % static_cast<std::int64_t>(kLine) != 0 ||
      offer.board > (*mapped)->size() - bytes || !(*mapped)->has_pages_to(offer.board + bytes)) {
    return false;
  }
  Peer& peer = peers_[rank];
  const std::byte* const board = (*mapped)->part(offer.board, bytes).data();
  peer.board = reinterpret_cast<const Board*>(board);
  peer.inbound = reinterpret_cast<const Note*>(board + sizeof(Board) + rank_ * sizeof(Note));
  peer.connection = &connection;
  peer.segment = std::move(mapped).value();
  return true;
}

std::span<float> SharedPeers::readable(std::span<float> vector) {
  const std::span<const std::byte> bytes = std::as_bytes(vector);
  if (vector.empty() || segment_->offset_of(bytes.data(), bytes.size())) return vector;
  PACELINE_ASSERT(vector.size() <= through_.size(),
                  std::to_string(vector.size()) + " floats outside of the shared memory");
  return through_.first(vector.size());
}

std::uint64_t SharedPeers::taken_by(std::uint32_t rank) const {
  return __atomic_load_n(&peers_[rank].inbound->taken, __ATOMIC_SEQ_CST);
}

void SharedPeers::offer(std::uint32_t rank, const RowHead& head, std::span<const float> floats) {
  Peer& peer = peers_[rank];
  const std::span<const std::byte> bytes = std::as_bytes(floats);
  const auto offset = segment_->offset_of(bytes.data(), bytes.size());
  PACELINE_ASSERT(offset, "floats outside of the shared memory");
  peer.outbound->rows[peer.offered % kOffersMax] = {head, *offset};
  __atomic_store_n(&peer.outbound->offered, ++peer.offered, __ATOMIC_SEQ_CST);
  wake(peer);
}

std::optional<SharedPeers::Offered> SharedPeers::offered_by(std::uint32_t rank) const {
  const Peer& peer = peers_[rank];
  if (__atomic_load_n(&peer.inbound->offered, __ATOMIC_SEQ_CST) == peer.taken) return std::nullopt;
  const Note::Row row = peer.inbound->rows[peer.taken % kOffersMax];  // which the peer may write again
  const auto bytes = static_cast<std::int64_t>(row.head.floats) * static_cast<std::int64_t>(sizeof(float));
  // What is no row of the segment's is one that does not fit the plan either.
  const bool lies_there = row.offset >= 0 && row.offset % static_cast<std::int64_t>(alignof(float)) == 0 &&
                          row.offset <= peer.segment->size() - bytes &&
                          peer.segment->has_pages_to(row.offset + bytes);
  if (!lies_there) return Offered{row.head, {}};
  const std::byte* const floats = peer.segment->part(row.offset, bytes).data();
  return Offered{row.head, {reinterpret_cast<const float*>(floats), row.head.floats}};
}

void SharedPeers::take(std::uint32_t rank) {
  Peer& peer = peers_[rank];
  __atomic_store_n(&peer.outbound->taken, ++peer.taken, __ATOMIC_SEQ_CST);
  wake(peer);
}

// After what was written: either it is seen by who falls asleep, or that is seen here. So all four are sequentially
// consistent. A fence would do; the thread sanitizer knows none.
void SharedPeers::wake(const Peer& peer) const {
  if (__atomic_load_n(&peer.board->asleep, __ATOMIC_SEQ_CST) == 0) return;
  char byte = 0;
  const iovec piece{&byte, 1};
  // It fails where many are there already, or nobody is any more, which the next wait finds.
  static_cast<void>(peer.connection->send({&piece, 1}));
}

void SharedPeers::sleeps() { __atomic_store_n(&board_->asleep, 1, __ATOMIC_SEQ_CST); }

void SharedPeers::wakes() { __atomic_store_n(&board_->asleep, 0, __ATOMIC_RELAXED); }

}  // namespace paceline::mesh
