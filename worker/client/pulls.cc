#include "worker/client/pulls.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/cache/freshness.h"
#include "common/encode/encode.h"
#include "common/params/vector_ops.h"

namespace paceline {
namespace {

std::string describe(ShardId shard, std::uint64_t request) {
  return "parameters from shard " + to_string(shard) + " for request " + std::to_string(request);
}

// Blocks kept for reuse, per slice: the process cache has a slice while the next one comes.
constexpr std::size_t kSlicesKept = 2;

// A device holds what it reads a little longer, for each thread; and to make such memory takes long.
std::size_t slices_kept(std::uint32_t threads, bool in_memory_of_a_device) {
  return kSlicesKept + (in_memory_of_a_device ? threads : 0);
}

// For each slice one of blocks of its size.
std::vector<BlockPool> pools_of(const std::vector<Range>& ranges, std::size_t kept,
                                const std::shared_ptr<std::pmr::memory_resource>& memory) {
  std::vector<BlockPool> pools;
  for (const Range& range : ranges) pools.emplace_back(std::max<std::int64_t>(1, range.size()), kept, memory);
  return pools;
}

std::vector<CacheSlice> slices_or_all(std::vector<CacheSlice> slices, const std::vector<Range>& ranges) {
  if (!slices.empty()) return slices;
  for (const Range& range : ranges)
    slices.push_back({ShardId(static_cast<std::uint32_t>(slices.size())), 0, {range, range, 0}});
  return slices;
}

}  // namespace

Pulls::Pulls(ProcessCache& cache, std::uint32_t threads, Encoding encoding,
             std::shared_ptr<std::pmr::memory_resource> memory, std::vector<CacheSlice> slices)
    : cache_(cache),
      slices_(slices_or_all(std::move(slices), cache.ranges())),
      shards_(slices_.back().shard.value + 1),
      threads_(threads),
      encoding_(encoding),
      copies_to_blocks_(memory != nullptr),
      blocks_(pools_of(cache.ranges(), slices_kept(threads, copies_to_blocks_), memory)),
      lent_to_sink_(shards_, 0) {}

std::optional<ShardId> Pulls::number_of(const Pull& pull, ShardId shard) const {
  for (std::uint32_t i = shard.value; i < slices_.size(); ++i) {  // each shard has one at least
    const CacheSlice& slice = slices_[i];
    if (slice.shard == shard && (pull.exact || slice.fragment == pull.fragment)) return ShardId(i);
  }
  return std::nullopt;
}

Pulls::Request Pulls::request(Version min_version, Ticks now, std::int64_t fragment) {
  return request(min_version, false, fragment, now);
}
Pulls::Request Pulls::request_early(Version min_version, Ticks now) {
  return request(min_version, threads_ == 1, 0, now);
}

Pulls::Request Pulls::request(Version min_version, bool for_sink, std::int64_t fragment, Ticks now) {
  std::lock_guard lock(mutex_);
  const Version newest_known = cache_.newest_known().version;
  for (auto& [ticket, pull] : pulls_) {
    const bool open = !pull.exact && pull.open > 0 && pull.fragment == fragment;
    if (!open || !cache::serves(pull.min_version, min_version, newest_known)) continue;
    pull.for_sink = pull.for_sink || for_sink;
    return {ticket, {}, {}};
  }
  Request request = start(min_version, false, fragment, now);
  pulls_.at(request.ticket).for_sink = for_sink;
  return request;
}

Pulls::Request Pulls::request_exact(Version version, Ticks now) {
  std::lock_guard lock(mutex_);
  return start(version, true, 0, now);
}

Pulls::Request Pulls::start(Version version, bool exact, std::int64_t fragment, Ticks now) {
  Request request{next_++, {}, {}};
  Pull& pull = pulls_[request.ticket];
  pull.min_version = version;
  pull.exact = exact;
  pull.fragment = fragment;
  pull.answers.resize(shards_);
  pull.asked_at = now;
  for (std::uint32_t k = 0; k < shards_; ++k) {
    pull.answers[k].whole = !number_of(pull, ShardId(k));
    if (pull.answers[k].whole) continue;
    request.pulls.push_back(pull_of(request.ticket, pull, ShardId(k)));
    request.shards.emplace_back(k);
  }
  pull.open = request.pulls.size();
  return request;
}

wire::Pull Pulls::pull_of(Ticket ticket, const Pull& pull, ShardId shard) const {
  const ShardId number = *number_of(pull, shard);
  const auto held = pull.exact ? nullptr : cache_.slice(number);
  wire::Pull asked{ticket, pull.min_version, pull.exact, held ? held->stamp.revision : kNoRevision, {}};
  const ShardPart& part = slices_[number.value].part;
  if (!pull.exact && part.own.size() != part.whole.size()) asked.part = part.of_shard();
  return asked;
}

Result<Pulls::Pull*> Pulls::find(ShardId from, ShardId named, std::uint64_t request) {
  if (named != from) return invalid_argument(describe(from, request) + " name shard " + to_string(named));
  const auto found = pulls_.find(request);
  if (found == pulls_.end()) return invalid_argument(describe(from, request) + ": no such request is open");
  if (found->second.answers.at(from.value).whole) {
    return invalid_argument(describe(from, request) + ": it has been answered already");
  }
  found->second.silent_since.reset();
  return &found->second;
}

Status Pulls::accept(ShardId shard, const wire::Parameters& piece, wire::Payload payload, Ticks now) {
  std::unique_lock lock(mutex_);
  PACELINE_ASSIGN_OR_RETURN(Pull* const pull, find(shard, piece.shard, piece.request));
  Answer& answer = pull->answers[shard.value];
  const Range range = range_of(*pull, shard);
  const std::int64_t floats = payload.count();
  const Encoding expected = pull->exact ? Encoding::kFp32 : encoding_;
  if (payload.encoding != expected && !payload.empty()) {
    return invalid_argument(describe(shard, piece.request) + ": in encoding " +
                            std::to_string(static_cast<int>(payload.encoding)) + ", expected " +
                            std::to_string(static_cast<int>(expected)));
  }
  if (piece.version < pull->min_version || (pull->exact && piece.version != pull->min_version)) {
    return invalid_argument(describe(shard, piece.request) + ": version " + to_string(piece.version) +
                            ", expected " + (pull->exact ? "exactly " : "at least ") +
                            to_string(pull->min_version));
  }
  if (piece.offset != answer.received || floats > range.size() - answer.received) {
    return invalid_argument(describe(shard, piece.request) + ": " + std::to_string(floats) + " floats at " +
                            std::to_string(piece.offset) + ", expected at " +
                            std::to_string(answer.received) + " of " + std::to_string(range.size()));
  }
  if (answer.slice == nullptr) {
    if (piece.applied.size() != threads_) {
      return invalid_argument(describe(shard, piece.request) + " begin with " +
                              std::to_string(piece.applied.size()) + " applied clocks, expected " +
                              std::to_string(threads_));
    }
    answer.slice = std::make_shared<Slice>(Slice{range, {piece.version, piece.revision, piece.applied}, {}});
  }
  if (piece.version != answer.slice->stamp.version || piece.revision != answer.slice->stamp.revision) {
    return invalid_argument(describe(shard, piece.request) + ": a piece of revision " +
                            to_string(piece.revision) + " after pieces of revision " +
                            to_string(answer.slice->stamp.revision));
  }
  if (payload.encoding != Encoding::kFp32) {
    // Nobody must wait for it: an answer that is not whole is assembled by this thread alone, and stays.
    lock.unlock();
    PACELINE_ASSIGN_OR_RETURN(payload, decoded(answer, *number_of(*pull, shard), piece, payload));
    lock.lock();
  } else if (payload.borrowed ? !pull->for_sink : copies_to_blocks_ && !pull->exact) {
    lock.unlock();
    // No device reads an exact one, which is of the whole shard.
    payload = copies_to_blocks_ && !pull->exact ? copied(answer, *number_of(*pull, shard), piece, payload)
                                                : in_own_memory(std::move(payload), range);
    lock.lock();
  }
  answer.slice->pieces.push_back({piece.offset, std::move(payload)});
  answer.received += floats;
  if (!piece.last) {
    lock.unlock();
    changed_.notify_all();  // whoever waits can copy it in, and need not wait for this lock first
    return Status::ok();
  }
  if (answer.received != range.size()) {
    return invalid_argument(describe(shard, piece.request) + " end with " + std::to_string(answer.received) +
                            " floats, expected " + std::to_string(range.size()));
  }
  if (!pull->exact) cache_.install(*number_of(*pull, shard), answer.slice);
  finish(piece.request, *pull, answer, now);
  lock.unlock();
  changed_.notify_all();
  return Status::ok();
}

Status Pulls::accept(ShardId shard, const wire::Unchanged& unchanged, Ticks now) {
  std::unique_lock lock(mutex_);
  PACELINE_ASSIGN_OR_RETURN(Pull* const pull, find(shard, unchanged.shard, unchanged.request));
  Answer& answer = pull->answers[shard.value];
  const ShardId number = *number_of(*pull, shard);
  const auto held = cache_.slice(number);
  if (answer.slice != nullptr) {
    return invalid_argument(describe(shard, unchanged.request) + ": 'unchanged' after " +
                            std::to_string(answer.slice->pieces.size()) + " pieces");
  }
  if (pull->exact || held == nullptr || unchanged.version < pull->min_version ||
      held->stamp.revision < unchanged.revision || unchanged.applied.size() != threads_) {
    return invalid_argument(describe(shard, unchanged.request) + ": 'unchanged' at version " +
                            to_string(unchanged.version) + ", revision " + to_string(unchanged.revision) +
                            ", but at least version " + to_string(pull->min_version) + " was asked for and " +
                            (held == nullptr ? "nothing" : "revision " + to_string(held->stamp.revision)) +
                            " is here");
  }
  cache_.confirm(number, {unchanged.version, unchanged.revision, unchanged.applied});
  finish(unchanged.request, *pull, answer, now);
  lock.unlock();
  changed_.notify_all();
  return Status::ok();
}

void Pulls::discount_pause(const Pause& pause) {
  std::lock_guard lock(mutex_);
  for (auto& [ticket, pull] : pulls_) {
    if (pull.silent_since) pull.silent_since = pause.discounted(*pull.silent_since);
  }
}

Status Pulls::check(Ticks now, std::chrono::nanoseconds allowed) {
  std::lock_guard lock(mutex_);
  const Version known = cache_.newest_known().version;
  for (auto& [ticket, pull] : pulls_) {
    const bool due = pull.exact || pull.min_version <= known;
    if (!due || !pull.silent_since) pull.silent_since = now;
    if (pull.open == 0 || now - *pull.silent_since <= allowed) continue;
    const auto open = std::find_if(pull.answers.begin(), pull.answers.end(),
                                   [](const Answer& answer) { return !answer.whole; });
    const ShardId shard(static_cast<std::uint32_t>(open - pull.answers.begin()));
    return deadline_exceeded(
        describe(shard, ticket) + ", version " + to_string(pull.min_version) +
        (pull.exact ? "" : " or newer") + ": nothing for " +
        std::to_string(std::chrono::floor<std::chrono::seconds>(now - *pull.silent_since).count()) +
        " s, though the server lives");
  }
  return Status::ok();
}

std::vector<Wait> Pulls::waits(std::chrono::nanoseconds usual) const {
  std::lock_guard lock(mutex_);
  std::vector<Wait> found;
  for (const auto& [ticket, pull] : pulls_) {
    if (pull.open == 0) continue;
    const std::string what =
        std::string("parameters of version ") + to_string(pull.min_version) + (pull.exact ? "" : " or newer");
    std::string missing;
    for (std::uint32_t k = 0; k < pull.answers.size(); ++k) {
      const Answer& answer = pull.answers[k];
      if (answer.whole) continue;
      missing += (missing.empty() ? "shard " : ", shard ") + std::to_string(k) + " has sent " +
                 std::to_string(answer.received) + " of " +
                 std::to_string(range_of(pull, ShardId(k)).size()) + " floats";
    }
    found.push_back({"the wait for " + what + " (request " + std::to_string(ticket) + ")",
                     "this node waits for " + what + ": " + missing,
                     answers_.usual().count() > 0 ? answers_.usual() : usual});
  }
  return found;
}

std::span<float> Pulls::place_of(Answer& answer, ShardId number, const wire::Parameters& piece,
                                 const wire::Payload& payload) {
  if (answer.block == nullptr) answer.block = std::make_shared<BlockRef>(blocks_[number.value].acquire());
  return {answer.block->writable_data() + piece.offset, static_cast<std::size_t>(payload.count())};
}

Result<wire::Payload> Pulls::decoded(Answer& answer, ShardId number, const wire::Parameters& piece,
                                     const wire::Payload& payload) {
  const std::span<float> floats = place_of(answer, number, piece, payload);
  PACELINE_RETURN_IF_ERROR(decode(payload.encoding, payload.bytes(), floats));
  return wire::Payload{answer.block, reinterpret_cast<const std::byte*>(floats.data()), floats.size_bytes()};
}

wire::Payload Pulls::copied(Answer& answer, ShardId number, const wire::Parameters& piece,
                            const wire::Payload& payload) {
  const std::span<float> floats = place_of(answer, number, piece, payload);
  copy_part(floats, payload.floats(), slices_[number.value].part.own.size());
  return {answer.block, reinterpret_cast<const std::byte*>(floats.data()), floats.size_bytes()};
}

void Pulls::asked(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  if (const auto pull = pulls_.find(ticket); pull != pulls_.end()) pull->second.asked = true;
}

bool Pulls::part_with(ShardId shard) {
  const std::lock_guard lock(mutex_);
  if (lent_to_sink_[shard.value] > 0) return false;
  for (auto& [ticket, pull] : pulls_) {
    Answer& answer = pull.answers[shard.value];
    if (answer.slice == nullptr) continue;
    const Range range = range_of(pull, shard);
    if (!answer.whole) {
      answer = Answer();
      continue;
    }
    for (SlicePiece& piece : answer.slice->pieces) {
      if (piece.payload.borrowed) piece.payload = in_own_memory(std::move(piece.payload), range);
    }
  }
  return true;
}

std::vector<wire::Pull> Pulls::unanswered(ShardId shard) {
  const std::lock_guard lock(mutex_);
  std::vector<wire::Pull> again;
  for (auto& [ticket, pull] : pulls_) {
    if (!pull.asked || pull.answers[shard.value].whole) continue;
    again.push_back(pull_of(ticket, pull, shard));
    pull.silent_since.reset();
  }
  return again;
}

bool Pulls::refuse_exact(ShardId shard, Status why) {
  std::lock_guard lock(mutex_);
  for (auto& [ticket, pull] : pulls_) {
    Answer& answer = pull.answers.at(shard.value);
    if (!pull.exact || answer.whole) continue;
    if (pull.refused.is_ok()) pull.refused = std::move(why);
    finish(ticket, pull, answer, Ticks());
    changed_.notify_all();
    return true;
  }
  return false;
}

void Pulls::finish(Ticket ticket, Pull& pull, Answer& answer, Ticks now) {
  answer.whole = true;
  if (--pull.open > 0) return;
  const bool brought = std::any_of(pull.answers.begin(), pull.answers.end(),
                                   [](const Answer& each) { return each.slice != nullptr; });
  if (brought && pull.refused.is_ok()) answers_.took(now - pull.asked_at);
  if (!pull.exact) {  // what it brought is in the process cache
    finished_.emplace(ticket, now);
    if (finished_.size() > kFinishedKept) finished_.erase(finished_.begin());
    if (!pull.for_sink) pulls_.erase(ticket);  // else with the last piece that is copied in
  }
}

Result<Ticks> Pulls::await(Ticket ticket, ParameterSink& sink) {
  PACELINE_ASSIGN_OR_RETURN(const auto answered, await_unless([] { return false; }, ticket, sink));
  return *answered;
}

Result<std::optional<Ticks>> Pulls::await_unless(const std::function<bool()>& unneeded, Ticket ticket,
                                                 ParameterSink& sink) {
  InSink in_sink(shards_, 0);
  std::unique_lock lock(mutex_);
  auto ended = await_unless(unneeded, ticket, sink, in_sink, lock);
  let_go(sink, in_sink, lock);
  return ended;
}

Result<std::optional<Ticks>> Pulls::await_unless(const std::function<bool()>& unneeded, Ticket ticket,
                                                 ParameterSink& sink, InSink& in_sink,
                                                 std::unique_lock<std::mutex>& lock) {
  std::vector<Taken> taken(shards_);
  for (;;) {
    if (!closed_.is_ok()) return closed_;
    const auto found = pulls_.find(ticket);
    if (found == pulls_.end()) return std::optional(finished_at(ticket));
    Pull& pull = found->second;
    if (pull.open > 0 && unneeded()) {
      give_up_copying_in(pull, lock);
      return std::optional<Ticks>();
    }
    pull.for_sink = threads_ == 1;
    if (auto piece = arrived(pull, taken)) {
      copy_in(*std::move(piece), sink, in_sink, lock);
    } else if (let_go(sink, in_sink, lock)) {
      continue;  // something may have come meanwhile
    } else if (pull.open == 0) {
      pulls_.erase(found);
    } else {
      changed_.wait(lock);
    }
  }
}

// With one thread the slice keeps nothing of what is in its place, and a copy of what is not and was lent.
void Pulls::copy_in(Arrived arrived, ParameterSink& sink, InSink& in_sink,
                    std::unique_lock<std::mutex>& lock) {
  wire::Payload& payload = arrived.piece.payload;
  const int lent = payload.borrowed ? 1 : 0;
  lent_to_sink_[arrived.shard.value] += lent;
  lock.unlock();  // the next frames must not wait for the copy
  const bool in_place = sink.copy_in(arrived.number, arrived.slice->stamp, arrived.piece);
  if (in_place) {
    payload = wire::Payload();
  } else {
    payload = in_own_memory(std::move(payload), arrived.slice->range);
  }
  lock.lock();
  if (in_place) {
    in_sink[arrived.shard.value] += lent;
  } else {
    lent_to_sink_[arrived.shard.value] -= lent;
  }
  if (threads_ == 1) std::swap(arrived.slice->pieces[arrived.place].payload, payload);
}

// Whether there was something to wait for, and so without the lock.
bool Pulls::let_go(ParameterSink& sink, InSink& in_sink, std::unique_lock<std::mutex>& lock) {
  if (std::all_of(in_sink.begin(), in_sink.end(), [](int pieces) { return pieces == 0; })) return false;
  lock.unlock();
  sink.let_go();
  lock.lock();
  for (std::size_t k = 0; k < in_sink.size(); ++k) lent_to_sink_[k] -= std::exchange(in_sink[k], 0);
  return true;
}

// What is here of it is copied after all, if it was lent.
void Pulls::give_up_copying_in(Pull& pull, std::unique_lock<std::mutex>& lock) {
  pull.for_sink = false;
  std::vector<Arrived> lent;
  std::vector<Taken> none(pull.answers.size());
  while (auto piece = arrived(pull, none)) {
    if (piece->piece.payload.borrowed) lent.push_back(*std::move(piece));
  }
  for (const Arrived& each : lent) ++lent_to_sink_[each.shard.value];  // part_with() waits
  lock.unlock();
  for (Arrived& each : lent)
    each.piece.payload = in_own_memory(std::move(each.piece.payload), each.slice->range);
  lock.lock();
  for (Arrived& each : lent) {
    each.slice->pieces[each.place].payload = each.piece.payload;
    --lent_to_sink_[each.shard.value];
  }
}

void Pulls::wake() {
  std::lock_guard lock(mutex_);  // who waits has asked before, or asks after
  changed_.notify_all();
}

std::optional<Pulls::Arrived> Pulls::arrived(const Pull& pull, std::vector<Taken>& taken) const {
  for (std::uint32_t k = 0; k < taken.size(); ++k) {
    const std::shared_ptr<Slice>& slice = pull.answers[k].slice;
    if (slice != taken[k].of) taken[k] = {slice, 0};
    while (slice != nullptr && taken[k].pieces < slice->pieces.size()) {
      const std::size_t place = taken[k].pieces++;
      const SlicePiece& piece = slice->pieces[place];
      // Nothing is in it, or it was copied in before it was said that nobody needs it.
      if (!piece.payload.empty())
        return Arrived{ShardId(k), *number_of(pull, ShardId(k)), slice, place, piece};
    }
  }
  return std::nullopt;
}

std::optional<Ticks> Pulls::answered(Ticket ticket) const {
  std::lock_guard lock(mutex_);
  const auto pull = pulls_.find(ticket);
  if (pull != pulls_.end() && pull->second.open > 0) return std::nullopt;
  return finished_at(ticket);
}

bool Pulls::is_over(Ticket ticket) const {
  std::lock_guard lock(mutex_);
  const auto pull = pulls_.find(ticket);
  return !closed_.is_ok() || pull == pulls_.end() || pull->second.open == 0;
}

Ticks Pulls::finished_at(Ticket ticket) const {
  const auto finished = finished_.find(ticket);
  return finished == finished_.end() ? Ticks() : finished->second;
}

Result<Snapshot> Pulls::collect(Ticket ticket) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !closed_.is_ok() || pulls_.at(ticket).open == 0; });
  if (!closed_.is_ok()) return closed_;
  Pull pull = std::move(pulls_.at(ticket));
  pulls_.erase(ticket);
  if (!pull.refused.is_ok()) return pull.refused;
  Snapshot snapshot;
  for (Answer& answer : pull.answers) snapshot.push_back(std::move(answer.slice));
  return snapshot;
}

void Pulls::close(Status why) {
  std::lock_guard lock(mutex_);
  if (!closed_.is_ok()) return;
  closed_ = std::move(why);
  changed_.notify_all();
}

}  // namespace paceline
