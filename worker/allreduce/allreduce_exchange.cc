#include "worker/allreduce/allreduce_exchange.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "common/assert.h"

namespace paceline {
namespace {

constexpr ShardId kAll{0};  // the only range

}  // namespace

AllReduceExchange::AllReduceExchange(Parts parts)
    : parts_(std::move(parts)),
      threads_(parts_.config.cluster.threads_per_node),
      counts_samples_(!parts_.config.pipeline.enabled()),  // stages have as many each (batch_limits.h)
      mesh_(parts_.config, parts_.node, parts_.layout, parts_.now),
      sums_(mesh_, parts_.layout, parts_.config.exchange.shard_optimizer, parts_.now, parts_.on_bucket),
      own_(threads_),
      weights_(threads_, parts_.config.train.round_samples()),
      model_(parts_.config, parts_.layout, parts_.place.value_or(PlaceInRun{0, parts_.layout.size()}),
             parts_.memory) {
  PACELINE_ASSERT(parts_.cache.ranges().size() == 1,
                  std::to_string(parts_.cache.ranges().size()) + " ranges, expected one of all parameters");
}

AllReduceExchange::~AllReduceExchange() { stop(); }

Status AllReduceExchange::connect(const mesh::Listening& listening, mesh::Place place) {
  return begin_formation(mesh_.join(listening, std::move(place)));
}

Status AllReduceExchange::connect(mesh::PeerConnections connections, mesh::Place place) {
  return begin_formation(mesh_.join(std::move(connections), std::move(place)));
}

// A run that ends with a loss needs nobody who keeps another's state.
Status AllReduceExchange::begin_formation(Status joined) {
  Status ready = std::move(joined);
  if (ready.is_ok()) ready = mesh_.measure();
  {
    const std::lock_guard lock(mutex_);
    if (const auto gone = mesh_.gone()) gone_ = gone;
    if (const auto unmet = mesh_.unmet()) gone_ = unmet;
  }
  if (!ready.is_ok()) return ready;
  mesh_.plan(parts_.meet != nullptr);
  static_cast<void>(mesh_.take_bytes_sent());  // of no bucket
  return ready;
}

Status AllReduceExchange::await_all() {
  Status all = mesh_.await_all();
  const std::lock_guard lock(mutex_);
  if (const auto gone = mesh_.gone()) gone_ = gone;
  return all;
}

Status AllReduceExchange::begin(const RunState& from) {
  PACELINE_ASSERT(mesh_.is_joined(), "no connections");
  {
    const std::lock_guard lock(mutex_);
    PACELINE_RETURN_IF_ERROR(model_.begin(from, mesh_.shares()));
    since_ = parts_.now();
  }
  thread_ = std::thread([this] { reduce_rounds(); });
  return Status::ok();
}

// ---- a node is lost

void AllReduceExchange::leave(std::uint32_t formation, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (formation > left_) {
    left_ = formation;
    why_left_ = why;
  }
  if (!is_left()) return;
  mesh_.stop().set();
  changed_.notify_all();
}

// Somebody has gone, or is not heard any more. What does not fit would not the next time.
bool AllReduceExchange::goes_on_after(const Status& failed) const {
  if (!parts_.meet) return false;
  return is_left() || failed.code() == StatusCode::kUnavailable ||
         failed.code() == StatusCode::kDeadlineExceeded;
}

// Until a formation stands. The step under way begins anew in it: gradients and parameters are what they were, and what
// was summed is dropped.
Status AllReduceExchange::meet_again(std::unique_lock<std::mutex>& lock, Status why) {
  std::optional<Meeting> meeting;  // whose socket listens until there is a next one
  while (closed_.is_ok() && goes_on_after(why)) {
    if (is_left()) why = unavailable(why_left_);  // as the authority has said, not that it has been stopped
    const Parting parting{formation_, model_.version(), gone_, why.message()};
    lock.unlock();
    Result<Meeting> next = parts_.meet(parting);
    mesh_.leave();
    lock.lock();
    if (!closed_.is_ok()) return closed_;
    if (!next.is_ok()) return next.status();
    meeting.emplace(std::move(next).value());
    formation_ = meeting->formation;
    gone_.reset();
    if (is_left()) continue;
    mesh_.stop().forget();
    lock.unlock();
    why = take_over(*meeting);
    if (why.is_ok() && parts_.on_formation) parts_.on_formation(*meeting);
    lock.lock();
    if (const auto gone = mesh_.gone()) gone_ = gone;
    if (why.is_ok()) return closed_;
  }
  return closed_.is_ok() ? why : closed_;
}

Status AllReduceExchange::take_over(const Meeting& meeting) {
  PACELINE_RETURN_IF_ERROR(mesh_.join(meeting.listening, meeting.place));
  mesh_.plan(parts_.meet != nullptr);
  std::optional<RunState> given;
  if (meeting.holder) {
    PACELINE_ASSIGN_OR_RETURN(given, take_from(meeting));
  }
  std::optional<ShardedOptimizer::Parts> moved;
  if (model_.is_sharded()) {
    PACELINE_ASSIGN_OR_RETURN(moved, model_.moved_to(mesh_.shares(), meeting.version, mesh_.sum(),
                                                     [this] { return mesh_.sum_all(); }));
  }
  static_cast<void>(mesh_.take_bytes_sent());  // of no bucket
  const std::lock_guard lock(mutex_);
  if (moved) model_.move(*std::move(moved));
  if (!given) return Status::ok();
  PACELINE_RETURN_IF_ERROR(model_.take_over(*given));
  begin_round();
  return Status::ok();
}

// One rank's state goes to all as a sum: of it and of -0, which changes the bits of no float. Who has it drops it.
Result<std::optional<RunState>> AllReduceExchange::take_from(const Meeting& meeting) {
  const bool holds = mesh_.rank() == *meeting.holder;
  const std::span<float> sum = mesh_.sum();
  std::optional<RunState> given;
  if (version() != meeting.version) given = RunState{meeting.version, {}};
  for (int vector = 0; vector < model_.vectors(); ++vector) {
    if (holds) {
      model_.copy_vector(vector, sum);
    } else {
      std::fill(sum.begin(), sum.end(), -0.0F);
    }
    PACELINE_RETURN_IF_ERROR(mesh_.sum_all());
    if (given) given->floats.insert(given->floats.end(), sum.begin(), sum.end());
  }
  return given;
}

// ---- training threads

void AllReduceExchange::put(const Contribution& gradient, std::int64_t final_from,
                            std::optional<std::int64_t> samples) {
  own_.put(gradient.worker.thread, gradient.values, final_from, samples);
  changed_.notify_all();
}

// The first float is final with push() alone: the gradient counts only then, and the round must not end before.
void AllReduceExchange::push_early(const Contribution& gradient, std::int64_t begin) {
  const std::lock_guard lock(mutex_);
  put(gradient, std::max<std::int64_t>(begin, 1), std::nullopt);
}

void AllReduceExchange::withdraw(const Contribution& gradient) {
  const std::lock_guard lock(mutex_);
  own_.withdraw(gradient.worker.thread);
}

void AllReduceExchange::push(Contribution gradient) {
  std::unique_lock lock(mutex_);
  put(gradient, 0, gradient.samples);
  changed_.wait(lock, [&] { return !closed_.is_ok() || model_.version().value > gradient.clock.value; });
}

// Where it ends the run its worker says so. Else, where the loss alone is not finite the sum is not to be, either. No
// sum has read the first float yet.
void AllReduceExchange::push_not_finite(Contribution gradient, std::span<float> values) {
  if (parts_.config.train.on_nan == OnNan::kStop) return withdraw(gradient);
  values.front() = std::numeric_limits<float>::quiet_NaN();
  push(std::move(gradient));
}

std::string AllReduceExchange::left_out(Clock clock) const {
  const std::lock_guard lock(mutex_);
  return left_out_.clock == clock ? left_out_.why : "";
}

Ticket AllReduceExchange::request_parameters(Version min_version) {
  const std::lock_guard lock(mutex_);
  if (model_.version() >= min_version) install();
  return static_cast<Ticket>(min_version.value);
}

// The state is shared, not copied: the next one is written beside it.
void AllReduceExchange::install() {
  const BlockRange& parameters = model_.parameters();
  const Version version = model_.version();
  const auto block = std::make_shared<BlockRef>(parameters.ref(0));
  const auto bytes = std::as_bytes(parameters.block(0));
  cache::SliceStamp stamp{version, Revision(version.value * parts_.config.cluster.cluster().workers()),
                          std::vector<Clock>(threads_, Clock(version.value))};
  parts_.cache.install(
      kAll,
      std::make_shared<const Slice>(Slice{
          {0, parameters.size()}, std::move(stamp), {{0, Payload{block, bytes.data(), bytes.size()}}}}));
}

Result<Ticks> AllReduceExchange::await_parameters(Ticket ticket, ParameterSink&) {
  std::unique_lock lock(mutex_);
  const Version asked(static_cast<std::int64_t>(ticket));
  changed_.wait(lock, [&] { return !closed_.is_ok() || model_.version() >= asked; });
  if (!closed_.is_ok()) return closed_;
  install();
  return since_;
}

std::optional<Ticks> AllReduceExchange::parameters_installed(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  if (model_.version() < Version(static_cast<std::int64_t>(ticket))) return std::nullopt;
  install();
  return since_;
}

EarlyPush AllReduceExchange::pushed_early(WorkerId worker, Ticks until) const {
  const std::lock_guard lock(mutex_);
  EarlyPush early = counts_.of_round(until);
  if (worker.thread != 0) early.bytes = 0;
  return early;
}

// ---- the exchange's thread

void AllReduceExchange::reduce_rounds() {
  std::unique_lock lock(mutex_);
  for (;;) {
    Status reduced = reduce_round(lock);
    if (!reduced.is_ok() && closed_.is_ok() && !rounds_are_over_) reduced = meet_again(lock, reduced);
    if (reduced.is_ok()) continue;
    if (!closed_.is_ok() || rounds_are_over_)
      return;  // stopped, and why is known; or nobody needs it any more
    closed_ = reduced;
    changed_.notify_all();
    lock.unlock();
    parts_.on_failure(reduced);
    return;
  }
}

Status AllReduceExchange::reduce_round(std::unique_lock<std::mutex>& lock) {
  PACELINE_ASSIGN_OR_RETURN(std::string not_finite, sum_buckets(lock));
  if (were_others_) {  // every rank knows it, and now all samples are known when the first bucket leaves
    PACELINE_ASSIGN_OR_RETURN(not_finite, sum_buckets(lock));
  }
  if (model_.is_sharded() && parts_.config.train.on_nan == OnNan::kSkip) {
    lock.unlock();
    const Status shared = sums_.share_not_finite(not_finite);
    lock.lock();
    if (const auto gone = mesh_.gone()) gone_ = gone;
    PACELINE_RETURN_IF_ERROR(shared);
  }
  if (not_finite.empty()) {
    PACELINE_RETURN_IF_ERROR(step(lock));
  } else {
    left_out_ = {Clock(model_.version().value), std::move(not_finite)};
    model_.skip_step();
  }
  begin_round();
  return Status::ok();
}

// With on_nan: skip what of the sums is not finite; empty: all is.
Result<std::string> AllReduceExchange::sum_buckets(std::unique_lock<std::mutex>& lock) {
  const std::vector<Bucket>& buckets = mesh_.buckets();
  std::string not_finite;
  for (std::size_t first = 0, end = 0; first < buckets.size(); first = end) {
    const auto is_final = [&](std::size_t number) {
      return own_.are_final_from(buckets[number].range.begin);
    };
    changed_.wait(lock, [&] { return !closed_.is_ok() || is_left() || is_final(first); });
    if (!closed_.is_ok()) return closed_;
    if (is_left()) return unavailable(why_left_);
    for (end = first + 1; end < buckets.size() && end - first < BucketSums::kInFlight && is_final(end);
         ++end) {
    }
    if (first == 0) weights_.begin(own_.samples());
    // The weights of all buckets are those of the first.
    const SampleWeights weights = weights_;
    const bool counts = counts_samples_ && end == buckets.size();
    if (counts) {
      mesh_.counts()[1] = weights_.end(own_.samples()) ? 1.0F : 0.0F;
      mesh_.counts()[0] = static_cast<float>(weights_.samples());
    }
    const std::vector<SharedFloats> own = own_.values();
    const Clock clock(model_.version().value);
    counts_.begin(parts_.now());
    lock.unlock();
    BucketSums::Summed summed =
        sums_.sum(first, end, clock, own, weights,
                  counts ? FormationMesh::With::kCounts : FormationMesh::With::kNothing);
    lock.lock();
    counts_.end(parts_.now(), mesh_.take_bytes_sent());
    if (const auto gone = mesh_.gone()) gone_ = gone;
    // Who has seen it as well may have gone for it before the later buckets were whole.
    if (!summed.not_finite.empty() && parts_.config.train.on_nan == OnNan::kStop) {
      return invalid_argument(summed.not_finite);
    }
    PACELINE_RETURN_IF_ERROR(summed.reduced);
    // The other buckets are summed all the same: every rank does the same.
    if (not_finite.empty()) not_finite = std::move(summed.not_finite);
    if (!counts) continue;
    samples_ = static_cast<std::int64_t>(mesh_.counts()[0]);
    were_others_ = mesh_.counts()[1] > 0.0F;
  }
  return not_finite;
}

Status AllReduceExchange::step(std::unique_lock<std::mutex>& lock) {
  const auto weigh = [&](Range part) {
    if (counts_samples_) sums_.weigh(part, samples_, weights_.usual());
  };
  if (model_.is_sharded()) {
    for (const Range& part : model_.parts()) {
      sums_.make_mean(part);
      weigh(part);
    }
    model_.begin_step(mesh_.sum());
    const Clock clock(model_.version().value);
    const Ticks begin = parts_.now();
    lock.unlock();
    const Status copied = sums_.copy_to_all(clock);
    lock.lock();
    counts_.add(parts_.now() - begin, mesh_.take_bytes_sent());
    if (const auto gone = mesh_.gone()) gone_ = gone;
    PACELINE_RETURN_IF_ERROR(copied);
    model_.end_step(mesh_.sum());
  } else {
    weigh({0, parts_.layout.size()});
    model_.step(mesh_.sum());
  }
  return Status::ok();
}

void AllReduceExchange::begin_round() {
  since_ = parts_.now();
  counts_.begin_round();
  own_.clear();
  changed_.notify_all();
}

// ---- the end

void AllReduceExchange::end_rounds() {
  const std::lock_guard lock(mutex_);
  rounds_are_over_ = true;
}

void AllReduceExchange::stop() {
  close(aborted("the exchange is over"));
  if (thread_.joinable()) thread_.join();
}

void AllReduceExchange::close(const Status& why) {
  const std::lock_guard lock(mutex_);
  if (closed_.is_ok()) closed_ = why;
  mesh_.stop().set();
  changed_.notify_all();
}

void AllReduceExchange::keep(Version version) {
  const std::lock_guard lock(mutex_);
  model_.keep(version);
}

Status AllReduceExchange::fetch_exact(Version version, std::span<float> flat) {
  std::optional<BlockRange> found;
  {
    const std::lock_guard lock(mutex_);
    if (!closed_.is_ok()) return closed_;
    found = model_.take_kept(version);
    if (!found) {
      return not_found("version " + to_string(version) + " is no longer here, which is at " +
                       to_string(model_.version()));
    }
  }
  found->copy_to(0, flat);
  return Status::ok();
}

std::shared_ptr<const RunState> AllReduceExchange::state_at(Version version) const {
  std::unique_lock lock(mutex_);
  if (version != model_.version()) return nullptr;
  const auto state = model_.state();
  lock.unlock();
  return state();
}

std::shared_ptr<const RunState> AllReduceExchange::last_state() const {
  std::unique_lock lock(mutex_);
  const auto state = model_.state();
  lock.unlock();
  return state();
}

Version AllReduceExchange::version() const {
  const std::lock_guard lock(mutex_);
  return model_.version();
}

Traffic AllReduceExchange::traffic() const { return counts_.traffic(); }

std::optional<NodeId> AllReduceExchange::gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

}  // namespace paceline
