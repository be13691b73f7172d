#include "worker/mesh/mesh.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "common/assert.h"
#include "common/encode/encode.h"
#include "common/params/vector_ops.h"
#include "common/ticks.h"
#include "worker/mesh/handshake.h"
#include "worker/mesh/spin.h"

namespace paceline::mesh {
namespace {

// Large enough that a call is worth its while, small enough for the second-level cache.
constexpr std::size_t kStagingFloats = 32 * 1024;
// Three arrays of this many lie in a core's own cache.
constexpr std::size_t kStretch = 8192;
// A system may keep an acknowledgement back for 200 ms, and a lost packet is sent again after as long.
constexpr std::chrono::milliseconds kAcknowledgedWithin(1000);

}  // namespace

std::vector<std::uint32_t> machines_of(const Place& place) {
  std::map<std::string, std::uint32_t> numbers;
  std::vector<std::uint32_t> machines;
  for (const std::string& endpoint : place.endpoints) {
    const std::string host = endpoint.substr(0, endpoint.rfind(':'));
    machines.push_back(numbers.emplace(host, static_cast<std::uint32_t>(numbers.size())).first->second);
  }
  return machines;
}

Mesh::Mesh(Place place, StopFlag& stop)
    : place_(std::move(place)),
      stop_(stop),
      has_keys_(place_.key.has_value()),
      staging_(kStagingFloats + 1),
      spin_(std::make_unique<Spin>()) {}

Mesh::~Mesh() = default;

Result<std::unique_ptr<Mesh>> Mesh::connect(const Listening& listening, Place place, StopFlag& stop,
                                            std::chrono::milliseconds within,
                                            std::shared_ptr<wire::SharedSegment> segment) {
  PACELINE_ASSIGN_OR_RETURN(PeerConnections connections, shake_hands(listening, place, stop, within));
  return over(std::move(connections), std::move(place), stop, within, std::move(segment));
}

Result<std::unique_ptr<Mesh>> Mesh::over(PeerConnections connections, Place place, StopFlag& stop,
                                         std::chrono::milliseconds within,
                                         std::shared_ptr<wire::SharedSegment> segment) {
  std::unique_ptr<Mesh> mesh(new Mesh(std::move(place), stop));
  forget(mesh->place_.key);  // each connection has keys of its own
  mesh->peers_ = std::move(connections);
  if (mesh->place_.shares) {
    PACELINE_ASSIGN_OR_RETURN(
        mesh->shared_, SharedPeers::agree(mesh->place_, mesh->peers_, std::move(segment), stop, within));
  }
  return mesh;
}

// One program under way.
class Mesh::Reduction {
  using Head = RowHead;
  static_assert(sizeof(Head) == 16);

 public:
  Reduction(Mesh& mesh, const schedule::Program& program, std::span<float> vector, std::uint32_t number,
            const Beginning& beginning)
      : mesh_(mesh),
        program_(program),
        vector_(vector),
        number_(number),
        beginning_(beginning),
        waits_(program.waits),
        left_(program.rows.size()) {
    for (const schedule::Program::Way& way : program.ways) {
      Way& made = ways_.emplace_back(Way{&way, mesh.peers_[way.peer].get()});
      made.shared = mesh.shares_memory() && mesh.shared_->with(way.peer);
      // All that was offered before has been taken.
      if (made.shared && way.sends) made.offered_before = mesh.shared_->offered_to(way.peer);
    }
  }

  Status run(std::chrono::milliseconds silence) {
    Status ended = go_on(silence);
    // Who has sent what was changed need not be gone, and others may be for other reasons.
    const bool is_changed = std::any_of(mesh_.peers_.begin(), mesh_.peers_.end(), [](const auto& peer) {
      return peer != nullptr && peer->is_changed();
    });
    if (ended.code() != StatusCode::kUnavailable || is_changed) return ended;
    const std::string closed = closed_connections();
    return closed.empty() ? ended : unavailable(closed);
  }

 private:
  Status go_on(std::chrono::milliseconds silence) {
    Spin& spin = *mesh_.spin_;
    spin.end();
    while (left_ > 0) {
      // Also while something moves on every turn.
      if (mesh_.stop_.is_set()) return aborted("stopped");
      bool moved = false;
      for (Way& way : ways_) {
        PACELINE_ASSIGN_OR_RETURN(const bool did, move(way));
        if (did) way.quiet_since = way.unacknowledged_since = std::nullopt;
        moved = moved || did;
      }
      if (moved) spin.end();
      if (moved || left_ == 0 || (mesh_.shares_memory() && spin.goes_on())) continue;
      PACELINE_RETURN_IF_ERROR(wait(silence));
      spin.end();
    }
    return Status::ok();
  }

  // "node 3 (10.0.0.3:40123), node 4 (10.0.0.4:40123) closed their connections"; empty: none has.
  std::string closed_connections() {
    std::string names;
    int count = 0;
    for (std::uint32_t rank = 0; rank < mesh_.peers_.size(); ++rank) {
      if (rank == mesh_.place_.rank) continue;
      if (mesh_.shares_memory() && mesh_.shared_->with(rank)) {
        static_cast<void>(mesh_.peers_[rank]->drain());  // fails where it is closed, as is looked at next
      }
      if (!mesh_.peers_[rank]->is_closed()) continue;
      names += (count++ == 0 ? "" : ", ") + name_of(mesh_.place_, rank);
      mesh_.gone_ = rank;
    }
    if (count != 1) mesh_.gone_.reset();
    if (count == 0) return "";
    return names + (count == 1 ? " closed its connection" : " closed their connections");
  }

  struct Way {
    const schedule::Program::Way* rows = nullptr;
    Connection* connection = nullptr;
    bool shared = false;
    std::uint64_t offered_before = 0;
    std::size_t offered = 0;     // in rows->rows: of a shared way that sends, which the peer may read
    std::size_t next = 0;        // likewise: which is not done
    std::size_t moved = 0;       // bytes of that row, its head included
    Head head = {};              // that comes
    std::array<char, 4> part{};  // of a float that has come in part, to be added
    std::size_t part_bytes = 0;
    std::vector<float> coded = {};  // bytes of a row in another encoding than fp32
    std::size_t pending = 0;        // of the connection, as of the last wait()
    // The first wait() since something has come or moved here, and the first since when nothing was acknowledged.
    std::optional<Ticks> quiet_since = {};
    std::optional<Ticks> unacknowledged_since = {};
  };

  // The row that is next, if what it waits for is done.
  std::optional<std::uint32_t> ready(const Way& way) const {
    if (way.next == way.rows->rows.size()) return std::nullopt;
    const std::uint32_t row = way.rows->rows[way.next];
    return waits_[row] == 0 ? std::optional(row) : std::nullopt;
  }

  static Head head_of(std::uint32_t number, const schedule::Transfer& row) {
    return {number, static_cast<std::uint32_t>(row.range.size()), row.range.begin};
  }
  std::span<float> floats_of(const schedule::Transfer& row) const {
    return vector_.subspan(static_cast<std::size_t>(row.range.begin),
                           static_cast<std::size_t>(row.range.size()));
  }

  void done(Way& way, std::uint32_t row) {
    for (const std::uint32_t dependent : program_.dependents[row]) --waits_[dependent];
    ++way.next;
    way.moved = 0;
    --left_;
  }

  bool is_coded() const { return program_.encoding != Encoding::kFp32; }
  // Of the row that is under way.
  std::span<std::byte> coded(Way& way, const schedule::Transfer& row) const {
    const std::size_t bytes = program_.bytes_of(row);
    way.coded.resize((bytes + sizeof(float) - 1) / sizeof(float));
    return std::as_writable_bytes(std::span(way.coded)).first(bytes);
  }

  // What leaves of this row. As it begins to, in another encoding, its floats are rounded here, too.
  std::span<const std::byte> leaving(Way& way, const schedule::Transfer& row) const {
    const std::span<float> floats = floats_of(row);
    if (!is_coded()) return std::as_bytes(floats);
    const std::span<std::byte> bytes = coded(way, row);
    if (way.moved == 0) {
      Encoder{program_.encoding}.encode(floats, bytes);
      decode_into(floats, bytes);
    }
    return bytes;
  }
  void decode_into(std::span<float> floats, std::span<const std::byte> bytes) const {
    const Status decoded = decode(program_.encoding, bytes, floats);
    PACELINE_ASSERT(decoded.is_ok(), decoded.message());  // it may only fail of top_k
  }

  Status lost(const Way& way, const std::string& why) const {
    return unavailable(name_of(mesh_.place_, way.rows->peer) + " " + why);
  }

  Result<bool> move(Way& way) {
    if (way.shared) return way.rows->sends ? offer_some(way) : take_some(way);
    return way.rows->sends ? send_some(way) : receive_some(way);
  }

  // Of a way in shared memory: what has been taken is done, and what may be read is offered.
  Result<bool> offer_some(Way& way) {
    const std::uint32_t peer = way.rows->peer;
    const std::vector<std::uint32_t>& rows = way.rows->rows;
    bool moved = false;
    for (std::uint64_t taken = mesh_.shared_->taken_by(peer) - way.offered_before; way.next < taken;
         moved = true) {
      const std::uint32_t row = rows[way.next];
      mesh_.bytes_sent_ += static_cast<std::int64_t>(program_.bytes_of(program_.rows[row]));
      done(way, row);
    }
    while (way.offered < rows.size() && waits_[rows[way.offered]] == 0 &&
           way.offered - way.next < SharedPeers::kOffersMax) {
      const schedule::Transfer& row = program_.rows[rows[way.offered++]];
      if (is_coded()) static_cast<void>(leaving(way, row));  // rounds what is here
      mesh_.shared_->offer(peer, head_of(number_, row), floats_of(row));
      moved = true;
    }
    return moved;
  }

  Result<bool> take_some(Way& way) {
    const auto index = ready(way);
    if (!index) return false;
    const auto offered = mesh_.shared_->offered_by(way.rows->peer);
    if (!offered) return false;
    const schedule::Transfer& row = program_.rows[*index];
    way.head = offered->head;
    PACELINE_RETURN_IF_ERROR(check(way, row));
    const std::span<float> target = floats_of(row);
    if (offered->floats.size() != target.size()) return lost(way, "offers what is not there");
    if (row.kind == schedule::TransferKind::kAdd) {
      add(*index, 0, offered->floats);
    } else {
      std::memcpy(target.data(), offered->floats.data(), target.size_bytes());
    }
    mesh_.shared_->take(way.rows->peer);
    done(way, *index);
    return true;
  }

  bool begins(std::uint32_t row) const { return beginning_.rows != nullptr && (*beginning_.rows)[row]; }

  // To the row's floats from `from` on.
  void add(std::uint32_t index, std::size_t from, std::span<const float> floats) const {
    const std::span<float> target = floats_of(program_.rows[index]).subspan(from, floats.size());
    if (!begins(index)) return add_weighted(target, floats, 1.0F);
    const std::int64_t begin = program_.rows[index].range.begin + static_cast<std::int64_t>(from);
    for (std::size_t at = 0; at < target.size(); at += kStretch) {
      const std::span<float> part = target.subspan(at, std::min(kStretch, target.size() - at));
      beginning_.make(begin + static_cast<std::int64_t>(at), part);
      add_weighted(part, floats.subspan(at, part.size()), 1.0F);
    }
  }

  // One call at most, so that what comes has its turn. Whether anything has left.
  Result<bool> send_some(Way& way) {
    const auto index = ready(way);
    if (!index) return false;
    const schedule::Transfer& row = program_.rows[*index];
    const Head head = head_of(number_, row);
    const std::span<const std::byte> floats = leaving(way, row);
    const std::size_t all = sizeof head + floats.size();
    std::array<iovec, 2> pieces{};
    std::size_t count = 0;
    if (way.moved < sizeof head) {
      const std::size_t from = way.moved;
      pieces[count++] = {const_cast<char*>(reinterpret_cast<const char*>(&head)) + from, sizeof head - from};
    }
    const std::size_t from = std::max(way.moved, sizeof head) - sizeof head;
    pieces[count++] = {const_cast<std::byte*>(floats.data()) + from, floats.size() - from};
    const Result<std::size_t> sent = way.connection->send(std::span(pieces).first(count));
    if (!sent.is_ok()) return lost(way, sent.status().message());
    if (*sent == 0) return false;
    way.moved += *sent;
    if (way.moved == all) {
      mesh_.bytes_sent_ += static_cast<std::int64_t>(floats.size());
      done(way, *index);
    }
    return true;
  }

  Result<std::size_t> receive(const Way& way, void* into, std::size_t bytes) const {
    Result<std::size_t> got = way.connection->receive(into, bytes);
    return got.is_ok() ? got : lost(way, got.status().message());
  }

  Result<bool> receive_some(Way& way) {
    const auto index = ready(way);
    if (!index) return false;
    const schedule::Transfer& row = program_.rows[*index];
    if (way.moved < sizeof(Head)) {
      char* const at = reinterpret_cast<char*>(&way.head) + way.moved;
      PACELINE_ASSIGN_OR_RETURN(const std::size_t got, receive(way, at, sizeof(Head) - way.moved));
      way.moved += got;
      if (way.moved < sizeof(Head)) return got > 0;
      PACELINE_RETURN_IF_ERROR(check(way, row));
    }
    const std::span<float> target = floats_of(row);
    const std::size_t at = way.moved - sizeof(Head);
    std::size_t got = 0;
    if (is_coded()) {
      const std::span<std::byte> bytes = coded(way, row);
      PACELINE_ASSIGN_OR_RETURN(got, receive(way, bytes.data() + at, bytes.size() - at));
      if (at + got == bytes.size()) take_coded(*index, bytes);
    } else if (row.kind == schedule::TransferKind::kReceive) {
      char* const into = reinterpret_cast<char*>(target.data()) + at;
      PACELINE_ASSIGN_OR_RETURN(got, receive(way, into, target.size_bytes() - at));
    } else {
      PACELINE_ASSIGN_OR_RETURN(got, receive_and_add(way, *index, at));
    }
    way.moved += got;
    if (way.moved == sizeof(Head) + program_.bytes_of(row)) done(way, *index);
    return got > 0;
  }

  void take_coded(std::uint32_t index, std::span<const std::byte> bytes) {
    const schedule::Transfer& row = program_.rows[index];
    const std::span<float> target = floats_of(row);
    if (row.kind == schedule::TransferKind::kReceive) return decode_into(target, bytes);
    std::vector<float>& decoded = mesh_.decoded_;
    decoded.resize(std::max(decoded.size(), target.size()));
    decode_into(std::span(decoded).first(target.size()), bytes);
    add(index, 0, std::span(decoded).first(target.size()));
  }

  // `at`: bytes of the row's floats that have come, those of a float in part included.
  Result<std::size_t> receive_and_add(Way& way, std::uint32_t index, std::size_t at) {
    char* const staging = reinterpret_cast<char*>(mesh_.staging_.data());
    std::memcpy(staging, way.part.data(), way.part_bytes);
    const std::size_t room = kStagingFloats * sizeof(float);
    PACELINE_ASSIGN_OR_RETURN(const std::size_t got,
                              receive(way, staging + way.part_bytes,
                                      std::min(floats_of(program_.rows[index]).size_bytes() - at, room)));
    const std::size_t begin = (at - way.part_bytes) / sizeof(float);
    const std::size_t bytes = way.part_bytes + got;
    const std::size_t whole = bytes / sizeof(float);
    add(index, begin, std::span(mesh_.staging_).first(whole));
    way.part_bytes = bytes % sizeof(float);
    std::memcpy(way.part.data(), staging + whole * sizeof(float), way.part_bytes);
    return got;
  }

  Status check(const Way& way, const schedule::Transfer& row) const {
    const Head expected = head_of(number_, row);
    if (way.head == expected) return Status::ok();
    const auto words = [](const Head& head) {
      return std::to_string(head.floats) + " floats at " + std::to_string(head.begin) + " of reduction " +
             std::to_string(head.number);
    };
    return invalid_argument(name_of(mesh_.place_, way.rows->peer) + " sends " + words(way.head) +
                            ", expected " + words(expected));
  }

  // Until something can be sent or received.
  Status wait(std::chrono::milliseconds silence) {
    if (!mesh_.shares_memory()) return wait_at_sockets(silence);
    mesh_.shared_->sleeps();
    bool may_move = false;
    for (const Way& way : ways_) may_move = may_move || (way.shared && may_be_moved(way));
    const Status waited = may_move ? Status::ok() : wait_at_sockets(silence);
    mesh_.shared_->wakes();
    return waited;
  }

  // Of a shared way, for which nobody sends a byte any more.
  bool may_be_moved(const Way& way) const {
    const std::uint32_t peer = way.rows->peer;
    if (way.rows->sends) return mesh_.shared_->taken_by(peer) - way.offered_before > way.next;
    return ready(way) && mesh_.shared_->offered_by(peer);
  }

  Status wait_at_sockets(std::chrono::milliseconds silence) {
    const Ticks now = steady_now();
    polls_.clear();
    polls_.push_back({mesh_.stop_.descriptor(), POLLIN, 0});
    waiting_.clear();
    for (Way& way : ways_) {
      if (way.shared || !ready(way)) continue;
      polls_.push_back(
          {way.connection->descriptor(), static_cast<short>(way.rows->sends ? POLLOUT : POLLIN), 0});
      waiting_.push_back(&way);
      // With keys a row may be in the middle of its frame, of which no byte has moved yet.
      const std::size_t pending = way.rows->sends ? 0 : way.connection->pending();
      if (std::exchange(way.pending, pending) != pending) {
        way.quiet_since = way.unacknowledged_since = std::nullopt;
      }
      if (!way.quiet_since) way.quiet_since = now;
    }
    const std::size_t of_ways = polls_.size();
    sleeping_.clear();
    for (Way& way : ways_) {
      if (!way.shared || way.next == way.rows->rows.size()) continue;
      polls_.push_back({way.connection->descriptor(), POLLIN, 0});
      sleeping_.push_back(&way);
    }
    PACELINE_ASSERT(polls_.size() > 1, "a checked plan in which nothing is left to wait for");
    const int found = poll(polls_.data(), polls_.size(), static_cast<int>(silence.count()));
    const int error = errno;
    if (mesh_.stop_.is_set()) return aborted("stopped");
    if (found < 0 && error != EINTR) return unavailable("poll: " + system_error(error));
    for (std::size_t i = of_ways; i < polls_.size(); ++i) {
      const Way& way = *sleeping_[i - of_ways];
      if (polls_[i].revents == 0) continue;
      const Status drained = way.connection->drain();
      if (drained.is_ok()) continue;
      // Who has done all of its rows may be gone.
      const bool may_move = std::any_of(ways_.begin(), ways_.end(), [&](const Way& other) {
        return other.shared && other.rows->peer == way.rows->peer && may_be_moved(other);
      });
      if (!may_move || way.connection->is_changed()) return lost(way, drained.message());
    }
    return check_silence(silence);
  }

  // A rank that has not begun a transfer may still compute, for as long as it likes; one that has begun goes on.
  // Its machine acknowledges what comes all the same, or says that there is no room for more.
  Status check_silence(std::chrono::milliseconds silence) {
    const Ticks now = steady_now();
    std::string names;
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      Way& way = *waiting_[i];
      if (polls_[i + 1].revents != 0 || now - *way.quiet_since < silence) continue;
      const bool begun = !way.rows->sends && (way.moved > 0 || way.pending > 0);
      if (!begun && !has_vanished(way, now, silence)) continue;
      names += (names.empty() ? "" : ", ") + name_of(mesh_.place_, way.rows->peer);
    }
    if (names.empty()) return Status::ok();
    return deadline_exceeded("nothing has come from " + names + " for " + std::to_string(silence.count()) +
                             " ms, in the middle of a transfer");
  }

  // Some of what had left for it at an earlier look, `silence` ago or more, has not been acknowledged, nor has
  // anything been since.
  static bool has_vanished(Way& way, Ticks now, std::chrono::milliseconds silence) {
    const auto ago = unacknowledged(way.connection->descriptor());
    if (!ago) {
      way.unacknowledged_since.reset();
    } else if (!way.unacknowledged_since || now - *way.unacknowledged_since > *ago) {
      way.unacknowledged_since = now;
    }
    return ago && now - *way.unacknowledged_since >= std::max(silence, kAcknowledgedWithin);
  }

  Mesh& mesh_;
  const schedule::Program& program_;
  const std::span<float> vector_;
  const std::uint32_t number_;
  const Beginning& beginning_;
  std::vector<std::uint32_t> waits_;
  std::size_t left_;
  std::vector<Way> ways_;
  std::vector<pollfd> polls_;   // the stop, then of each of waiting_
  std::vector<Way*> waiting_;   // for the socket alone
  std::vector<Way*> sleeping_;  // in shared memory
};

Status Mesh::reduce(const schedule::Program& program, std::span<float> vector, std::uint32_t number,
                    std::chrono::milliseconds silence, const Beginning& beginning) {
  PACELINE_ASSERT(std::ssize(vector) == program.floats && program.rank == place_.rank,
                  "a program of " + std::to_string(program.floats) + " floats for another vector or rank");
  PACELINE_RETURN_IF_ERROR(broken_);
  const std::span<float> readable = shares_memory() ? shared_->readable(vector) : vector;
  const bool copied = readable.data() != vector.data();
  if (copied) std::copy(vector.begin(), vector.end(), readable.begin());
  broken_ = Reduction(*this, program, readable, number, beginning).run(silence);
  if (copied) std::copy(readable.begin(), readable.end(), vector.begin());
  return broken_;
}

}  // namespace paceline::mesh
