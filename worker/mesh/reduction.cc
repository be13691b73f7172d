// What carries out a rank's rows of plans (mesh.h).
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "common/assert.h"
#include "common/encode/encode.h"
#include "common/params/vector_ops.h"
#include "common/ticks.h"
#include "worker/mesh/handshake.h"
#include "worker/mesh/mesh.h"
#include "worker/mesh/spin.h"

namespace paceline::mesh {
namespace {

// Three arrays of this many lie in a core's own cache.
constexpr std::size_t kStretch = 8192;
// A system may keep an acknowledgement back for 200 ms, and a lost packet is sent again after as long.
constexpr std::chrono::milliseconds kAcknowledgedWithin(1000);

}  // namespace

// What is under way: one program or several.
class Mesh::Reduction {
  using Head = RowHead;
  static_assert(sizeof(Head) == 16);

 public:
  Reduction(Mesh& mesh, std::span<const Part> parts, const std::function<void(std::size_t part)>& on_done)
      : mesh_(mesh), parts_(parts), on_done_(on_done) {
    for (std::uint32_t part = 0; part < parts_.size(); ++part) {
      const schedule::Program& program = parts_[part].program;
      waits_.push_back(program.waits);
      left_of_.push_back(program.rows.size());
      has_rest_.push_back(parts_[part].beginning.first == nullptr);
      left_ += program.rows.size();
      for (const schedule::Program::Way& way : program.ways) {
        Way& made = way_to(way.peer, way.sends);
        for (const std::uint32_t row : way.rows) made.rows.push_back({part, row});
      }
    }
  }

  Status run(std::chrono::milliseconds silence) {
    for (std::uint32_t part = 0; part < parts_.size(); ++part) {
      if (left_of_[part] > 0) continue;
      make_rest(part);  // of one rank
      on_done_(part);
    }
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
    for (std::uint32_t rank = 0; mesh_.shares_memory() && rank < mesh_.peers_.size(); ++rank) {
      const bool is_read = rank != mesh_.place_.rank && mesh_.shared_->with(rank);
      if (is_read)
        static_cast<void>(mesh_.peers_[rank]->drain());  // fails where it is closed, as is looked at next
    }
    std::string names;
    const std::vector<std::uint32_t> closed = mesh_.closed_peers();
    for (const std::uint32_t rank : closed)
      names += (names.empty() ? "" : ", ") + name_of(mesh_.place_, rank);
    if (closed.empty()) return "";
    return names + (closed.size() == 1 ? " closed its connection" : " closed their connections");
  }

  struct Row {
    std::uint32_t part = 0;
    std::uint32_t row = 0;  // of its program
  };

  struct Way {
    std::uint32_t peer = 0;
    bool sends = false;
    Connection* connection = nullptr;
    bool shared = false;
    std::uint64_t offered_before = 0;
    std::vector<Row> rows = {};  // of all parts, in their order
    std::size_t offered = 0;     // in rows: of a shared way that sends, which the peer may read
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

  Way& way_to(std::uint32_t peer, bool sends) {
    const auto found = std::find_if(ways_.begin(), ways_.end(),
                                    [&](const Way& way) { return way.peer == peer && way.sends == sends; });
    if (found != ways_.end()) return *found;
    Way& made = ways_.emplace_back(Way{peer, sends, mesh_.peers_[peer].get()});
    made.shared = mesh_.shares_memory() && mesh_.shared_->with(peer);
    // All that was offered before has been taken.
    if (made.shared && sends) made.offered_before = mesh_.shared_->offered_to(peer);
    return made;
  }

  // The row that is next, if what it waits for is done.
  std::optional<Row> ready(const Way& way) const {
    if (way.next == way.rows.size()) return std::nullopt;
    const Row row = way.rows[way.next];
    return waits(row) == 0 ? std::optional(row) : std::nullopt;
  }

  std::uint32_t waits(const Row& row) const { return waits_[row.part][row.row]; }
  const schedule::Program& program_of(const Row& row) const { return parts_[row.part].program; }
  const schedule::Transfer& transfer_of(const Row& row) const { return program_of(row).rows[row.row]; }
  std::size_t bytes_of(const Row& row) const { return program_of(row).bytes_of(transfer_of(row)); }
  Head head_of(const Row& row) const {
    const schedule::Transfer& transfer = transfer_of(row);
    return {parts_[row.part].number, static_cast<std::uint32_t>(transfer.range.size()), transfer.range.begin};
  }
  std::span<float> floats_of(const Row& row) const {
    const Range& range = transfer_of(row).range;
    return parts_[row.part].vector.subspan(static_cast<std::size_t>(range.begin),
                                           static_cast<std::size_t>(range.size()));
  }

  // Before the first row of a part moves: until then those before it are on their way.
  void make_rest(std::uint32_t part) {
    if (has_rest_[part]) return;
    has_rest_[part] = true;
    const auto& [program, vector, number, beginning] = parts_[part];
    for (const Range& range : beginning.first->rest) {
      beginning.make(range.begin, vector.subspan(static_cast<std::size_t>(range.begin),
                                                 static_cast<std::size_t>(range.size())));
    }
  }

  void done(Way& way, const Row& row) {
    for (const std::uint32_t dependent : program_of(row).dependents[row.row]) --waits_[row.part][dependent];
    ++way.next;
    way.moved = 0;
    --left_;
    if (--left_of_[row.part] == 0) on_done_(row.part);
  }

  bool is_coded(const Row& row) const { return program_of(row).encoding != Encoding::kFp32; }
  // Of the row that is under way.
  std::span<std::byte> coded(Way& way, const Row& row) const {
    const std::size_t bytes = bytes_of(row);
    way.coded.resize((bytes + sizeof(float) - 1) / sizeof(float));
    return std::as_writable_bytes(std::span(way.coded)).first(bytes);
  }

  // What leaves of this row. As it begins to, in another encoding, its floats are rounded here, too.
  std::span<const std::byte> outgoing(Way& way, const Row& row) const {
    const std::span<float> floats = floats_of(row);
    if (!is_coded(row)) return std::as_bytes(floats);
    const std::span<std::byte> bytes = coded(way, row);
    if (way.moved == 0) {
      const Encoding encoding = program_of(row).encoding;
      Encoder{encoding}.encode(floats, bytes);
      decode_into(encoding, floats, bytes);
    }
    return bytes;
  }
  static void decode_into(Encoding encoding, std::span<float> floats, std::span<const std::byte> bytes) {
    const Status decoded = decode(encoding, bytes, floats);
    PACELINE_ASSERT(decoded.is_ok(), decoded.message());  // it may only fail of top_k
  }

  Status lost(const Way& way, const std::string& why) const {
    return unavailable(name_of(mesh_.place_, way.peer) + " " + why);
  }

  Result<bool> move(Way& way) {
    if (way.shared) return way.sends ? offer_some(way) : take_some(way);
    return way.sends ? send_some(way) : receive_some(way);
  }

  // Of a way in shared memory: what has been taken is done, and what may be read is offered.
  Result<bool> offer_some(Way& way) {
    const std::uint32_t peer = way.peer;
    bool moved = false;
    for (std::uint64_t taken = mesh_.shared_->taken_by(peer) - way.offered_before; way.next < taken;
         moved = true) {
      const Row row = way.rows[way.next];
      mesh_.bytes_sent_ += static_cast<std::int64_t>(bytes_of(row));
      done(way, row);
    }
    while (way.offered < way.rows.size() && waits(way.rows[way.offered]) == 0 &&
           way.offered - way.next < SharedPeers::kOffersMax) {
      const Row row = way.rows[way.offered++];
      make_rest(row.part);
      if (is_coded(row)) static_cast<void>(outgoing(way, row));  // rounds what is here
      mesh_.shared_->offer(peer, head_of(row), floats_of(row));
      moved = true;
    }
    return moved;
  }

  Result<bool> take_some(Way& way) {
    const auto row = ready(way);
    if (!row) return false;
    const auto offered = mesh_.shared_->offered_by(way.peer);
    if (!offered) return false;
    way.head = offered->head;
    PACELINE_RETURN_IF_ERROR(check(way, *row));
    const std::span<float> target = floats_of(*row);
    if (offered->floats.size() != target.size()) return lost(way, "offers what is not there");
    make_rest(row->part);
    if (transfer_of(*row).kind == schedule::TransferKind::kAdd) {
      add(*row, 0, offered->floats);
    } else {
      std::memcpy(target.data(), offered->floats.data(), target.size_bytes());
    }
    mesh_.shared_->take(way.peer);
    done(way, *row);
    return true;
  }

  // To the row's floats from `from` on.
  void add(const Row& row, std::size_t from, std::span<const float> floats) const {
    const std::span<float> target = floats_of(row).subspan(from, floats.size());
    const Beginning& beginning = parts_[row.part].beginning;
    if (beginning.first == nullptr || !beginning.first->rows[row.row])
      return add_weighted(target, floats, 1.0F);
    const std::int64_t begin = transfer_of(row).range.begin + static_cast<std::int64_t>(from);
    for (std::size_t at = 0; at < target.size(); at += kStretch) {
      const std::span<float> part = target.subspan(at, std::min(kStretch, target.size() - at));
      beginning.make(begin + static_cast<std::int64_t>(at), part);
      add_weighted(part, floats.subspan(at, part.size()), 1.0F);
    }
  }

  // One call at most, so that what comes has its turn. Whether anything has left.
  Result<bool> send_some(Way& way) {
    const auto row = ready(way);
    if (!row) return false;
    make_rest(row->part);
    const Head head = head_of(*row);
    const std::span<const std::byte> floats = outgoing(way, *row);
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
      done(way, *row);
    }
    return true;
  }

  Result<std::size_t> receive(const Way& way, void* into, std::size_t bytes) const {
    Result<std::size_t> got = way.connection->receive(into, bytes);
    return got.is_ok() ? got : lost(way, got.status().message());
  }

  Result<bool> receive_some(Way& way) {
    const auto row = ready(way);
    if (!row) return false;
    if (way.moved < sizeof(Head)) {
      char* const at = reinterpret_cast<char*>(&way.head) + way.moved;
      PACELINE_ASSIGN_OR_RETURN(const std::size_t got, receive(way, at, sizeof(Head) - way.moved));
      way.moved += got;
      if (way.moved < sizeof(Head)) return got > 0;
      PACELINE_RETURN_IF_ERROR(check(way, *row));
      make_rest(row->part);
    }
    const std::span<float> target = floats_of(*row);
    const std::size_t at = way.moved - sizeof(Head);
    std::size_t got = 0;
    if (is_coded(*row)) {
      const std::span<std::byte> bytes = coded(way, *row);
      PACELINE_ASSIGN_OR_RETURN(got, receive(way, bytes.data() + at, bytes.size() - at));
      if (at + got == bytes.size()) take_coded(*row, bytes);
    } else if (transfer_of(*row).kind == schedule::TransferKind::kReceive) {
      char* const into = reinterpret_cast<char*>(target.data()) + at;
      PACELINE_ASSIGN_OR_RETURN(got, receive(way, into, target.size_bytes() - at));
    } else {
      PACELINE_ASSIGN_OR_RETURN(got, receive_and_add(way, *row, at));
    }
    way.moved += got;
    if (way.moved == sizeof(Head) + bytes_of(*row)) done(way, *row);
    return got > 0;
  }

  void take_coded(const Row& row, std::span<const std::byte> bytes) {
    const std::span<float> target = floats_of(row);
    const Encoding encoding = program_of(row).encoding;
    if (transfer_of(row).kind == schedule::TransferKind::kReceive)
      return decode_into(encoding, target, bytes);
    std::vector<float>& decoded = mesh_.decoded_;
    decoded.resize(std::max(decoded.size(), target.size()));
    decode_into(encoding, std::span(decoded).first(target.size()), bytes);
    add(row, 0, std::span(decoded).first(target.size()));
  }

  // `at`: bytes of the row's floats that have come, those of a float in part included.
  Result<std::size_t> receive_and_add(Way& way, const Row& row, std::size_t at) {
    char* const staged = reinterpret_cast<char*>(mesh_.staging_.data());
    std::memcpy(staged, way.part.data(), way.part_bytes);
    const std::size_t room = (mesh_.staging_.size() - 1) * sizeof(float);
    PACELINE_ASSIGN_OR_RETURN(
        const std::size_t got,
        receive(way, staged + way.part_bytes, std::min(floats_of(row).size_bytes() - at, room)));
    const std::size_t begin = (at - way.part_bytes) / sizeof(float);
    const std::size_t bytes = way.part_bytes + got;
    const std::size_t whole = bytes / sizeof(float);
    add(row, begin, std::span(mesh_.staging_).first(whole));
    way.part_bytes = bytes % sizeof(float);
    std::memcpy(way.part.data(), staged + whole * sizeof(float), way.part_bytes);
    return got;
  }

  Status check(const Way& way, const Row& row) const {
    const Head expected = head_of(row);
    if (way.head == expected) return Status::ok();
    const auto words = [](const Head& head) {
      return std::to_string(head.floats) + " floats at " + std::to_string(head.begin) + " of reduction " +
             std::to_string(head.number);
    };
    return invalid_argument(name_of(mesh_.place_, way.peer) + " sends " + words(way.head) + ", expected " +
                            words(expected));
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
    const std::uint32_t peer = way.peer;
    if (way.sends) return mesh_.shared_->taken_by(peer) - way.offered_before > way.next;
    return ready(way) && mesh_.shared_->offered_by(peer);
  }

  Status wait_at_sockets(std::chrono::milliseconds silence) {
    const Ticks now = steady_now();
    polls_.clear();
    polls_.push_back({mesh_.stop_.descriptor(), POLLIN, 0});
    waiting_.clear();
    for (Way& way : ways_) {
      if (way.shared || !ready(way)) continue;
      polls_.push_back({way.connection->descriptor(), static_cast<short>(way.sends ? POLLOUT : POLLIN), 0});
      waiting_.push_back(&way);
      // With keys a row may be in the middle of its frame, of which no byte has moved yet.
      const std::size_t pending = way.sends ? 0 : way.connection->pending();
      if (std::exchange(way.pending, pending) != pending) {
        way.quiet_since = way.unacknowledged_since = std::nullopt;
      }
      if (!way.quiet_since) way.quiet_since = now;
    }
    const std::size_t of_ways = polls_.size();
    sleeping_.clear();
    for (Way& way : ways_) {
      if (!way.shared || way.next == way.rows.size()) continue;
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
        return other.shared && other.peer == way.peer && may_be_moved(other);
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
      const bool begun = !way.sends && (way.moved > 0 || way.pending > 0);
      if (!begun && !has_vanished(way, now, silence)) continue;
      names += (names.empty() ? "" : ", ") + name_of(mesh_.place_, way.peer);
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
  const std::span<const Part> parts_;
  const std::function<void(std::size_t part)>& on_done_;
  std::vector<std::vector<std::uint32_t>> waits_;  // by part and row
  std::vector<std::size_t> left_of_;               // rows of a part
  std::vector<bool> has_rest_;                     // of a part, whether what no row begins is there
  std::size_t left_ = 0;                           // and of all
  std::vector<Way> ways_;
  std::vector<pollfd> polls_;   // the stop, then of each of waiting_
  std::vector<Way*> waiting_;   // for the socket alone
  std::vector<Way*> sleeping_;  // in shared memory
};

Status Mesh::reduce(std::span<const Part> parts, std::chrono::milliseconds silence,
                    const std::function<void(std::size_t part)>& on_done) {
  for (const Part& part : parts) {
    const std::span<float> vector = part.vector;
    PACELINE_ASSERT(
        std::ssize(vector) == part.program.floats && part.program.rank == place_.rank,
        "a program of " + std::to_string(part.program.floats) + " floats for another vector or rank");
    PACELINE_ASSERT(!shares_memory() || shared_->readable(vector).data() == vector.data(),
                    "a vector that peers cannot read");
  }
  PACELINE_RETURN_IF_ERROR(broken_);
  broken_ = Reduction(*this, parts, on_done).run(silence);
  return broken_;
}

}  // namespace paceline::mesh
