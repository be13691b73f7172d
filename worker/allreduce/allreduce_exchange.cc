#include "worker/allreduce/allreduce_exchange.h"

#include <algorithm>
#include <map>

#include "common/assert.h"
#include "common/params/non_finite.h"
#include "common/params/rates.h"
#include "common/params/vector_ops.h"
#include "common/schedule/buckets.h"
#include "common/schedule/check.h"
#include "common/schedule/run_plan.h"

namespace paceline {
namespace {

constexpr ShardId kAll{0};  // the only range
// For how long a peer may fall silent in the middle of a transfer. The authority, which hears of every node, has the
// first word: a lease.
constexpr int kSilenceLeases = 2;

// For the vector that is reduced. Where none can be had everything is sent.
std::shared_ptr<wire::SharedSegment> segment_for(const RunConfig& config, std::int64_t floats) {
  if (config.cluster.shared_memory == SharedMemory::kOff || config.cluster.nodes == 1 || floats == 0)
    return nullptr;
  auto segment = wire::SharedSegment::create(mesh::SharedPeers::segment_bytes(floats, config.cluster.nodes));
  return segment.is_ok() ? std::move(segment).value() : nullptr;
}

std::pmr::memory_resource* memory_of(const std::shared_ptr<wire::SharedSegment>& segment) {
  return segment == nullptr ? std::pmr::get_default_resource() : segment.get();
}

std::chrono::milliseconds milliseconds(Duration time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time);
}

}  // namespace

AllReduceExchange::AllReduceExchange(Parts parts)
    : parts_(std::move(parts)),
      threads_(parts_.config.cluster.threads_per_node),
      segment_(segment_for(parts_.config, parts_.layout.size())),
      sum_(static_cast<std::size_t>(parts_.layout.size()), memory_of(segment_)),
      own_(threads_),
      pool_(std::max<std::int64_t>(1, parts_.layout.size()), /*idle_max=*/2),
      parameters_(pool_, parts_.layout.size()),
      optimizer_(parts_.config.train.optimizer, parts_.layout.size(),
                 std::max<std::int64_t>(1, parts_.layout.size()),
                 FactorRanges(parts_.layout, parts_.config.train.optimizer, {0, parts_.layout.size()})) {
  PACELINE_ASSERT(parts_.cache.ranges().size() == 1,
                  std::to_string(parts_.cache.ranges().size()) + " ranges, expected one of all parameters");
}

AllReduceExchange::~AllReduceExchange() { stop(); }

std::chrono::milliseconds AllReduceExchange::silence() const {
  return kSilenceLeases * milliseconds(parts_.config.cluster.lease);
}

Status AllReduceExchange::connect(const mesh::Listening& listening, mesh::Place place) {
  Status ready = join(listening, std::move(place));
  if (ready.is_ok()) ready = measure();
  if (mesh_ != nullptr && mesh_->gone()) {
    const std::lock_guard lock(mutex_);
    gone_ = place_.node_of(*mesh_->gone());
  }
  if (ready.is_ok()) plan();
  return ready;
}

Status AllReduceExchange::join(const mesh::Listening& listening, mesh::Place place) {
  place_ = std::move(place);
  place_.shares = true;
  rank_ = place_.rank;
  ranks_ = static_cast<std::uint32_t>(place_.endpoints.size());
  machines_ = mesh::machines_of(place_);
  const bool whole = parts_.config.cluster.gradient_encoding == Encoding::kFp32;
  weight_ = whole ? 1.0F : 1.0F / static_cast<float>(workers());
  const std::span<const std::byte> sum = std::as_bytes(std::span(sum_));
  const bool is_shared = segment_ != nullptr && segment_->offset_of(sum.data(), sum.size());
  PACELINE_ASSIGN_OR_RETURN(
      mesh_, mesh::Mesh::connect(listening, place_, stop_, milliseconds(parts_.config.cluster.start_timeout),
                                 is_shared ? segment_ : nullptr));
  return Status::ok();
}

Status AllReduceExchange::measure() {
  const RunConfig& config = parts_.config;
  if (config.exchange.algorithm != schedule::Algorithm::kAuto || ranks_ == 1) return Status::ok();
  std::vector<std::int64_t> floats;
  for (const Range& range : schedule::buckets(parts_.layout, config.exchange.bucket_bytes))
    floats.push_back(range.size());
  const MeasureRequest request{
      rank_, ranks_, floats, sum_, machines_, config.cluster.gradient_encoding, silence(), parts_.now};
  PACELINE_ASSIGN_OR_RETURN(choices_, measure_choices(request, *mesh_, reductions_));
  return Status::ok();
}

// A plan that its checker refuses would be our own bug, and is not run. What was measured with more ranks holds.
std::shared_ptr<const schedule::Program> AllReduceExchange::program_of(std::int64_t floats) const {
  std::optional<schedule::Algorithm> chosen;
  if (!choices_.empty()) chosen = chosen_for(choices_, floats);
  const Result<schedule::Plan> made = schedule::plan_of_run(parts_.config, floats, chosen, machines_, ranks_);
  const Status checked = made.is_ok() ? schedule::check(*made) : made.status();
  PACELINE_ASSERT(checked.is_ok(), checked.message());
  return std::make_shared<const schedule::Program>(*made, rank_, parts_.config.cluster.gradient_encoding);
}

void AllReduceExchange::plan() {
  buckets_.clear();
  std::map<std::int64_t, std::shared_ptr<const schedule::Program>> programs;
  for (const Range& range : schedule::buckets(parts_.layout, parts_.config.exchange.bucket_bytes)) {
    std::shared_ptr<const schedule::Program>& program = programs[range.size()];
    if (program == nullptr) program = program_of(range.size());
    buckets_.push_back({range, program});
  }
  const std::lock_guard lock(mutex_);
  bytes_counted_ = mesh_->bytes_sent();
}

Status AllReduceExchange::begin(const RunState& from) {
  PACELINE_ASSERT(mesh_ != nullptr, "no connections");
  {
    const std::lock_guard lock(mutex_);
    PACELINE_RETURN_IF_ERROR(restore(from));
  }
  thread_ = std::thread([this] { reduce_rounds(); });
  return Status::ok();
}

// Behind the lock. Who has been given what is here keeps it.
Status AllReduceExchange::restore(const RunState& from) {
  const std::int64_t size = parts_.layout.size();
  const int vectors = from.version == Version(0) ? 0 : state_vectors(parts_.config.train.optimizer.kind);
  if (std::ssize(from.floats) != size * (1 + vectors)) {
    return invalid_argument("the run's state of version " + to_string(from.version) + " has " +
                            std::to_string(from.floats.size()) + " floats, expected " +
                            std::to_string(1 + vectors) + " x " + std::to_string(size));
  }
  const auto vector = [&](int number) {
    return std::span(from.floats)
        .subspan(static_cast<std::size_t>(number * size), static_cast<std::size_t>(size));
  };
  parameters_.copy_from(0, vector(0), pool_);
  if (vectors > 0) {
    BlockPool pool(std::max<std::int64_t>(1, size), 0);
    OptimizerImage image{from.version.value, BlockRange(pool, size), {}};
    image.first.copy_from(0, vector(1), pool);
    if (vectors > 1) {
      image.second = BlockRange(pool, size);
      image.second.copy_from(0, vector(2), pool);
    }
    PACELINE_RETURN_IF_ERROR(optimizer_.restore(std::move(image)));
  }
  version_ = from.version;
  since_ = parts_.now();
  return Status::ok();
}

// ---- a node is lost

void AllReduceExchange::leave(std::uint32_t formation) {
  const std::lock_guard lock(mutex_);
  left_ = std::max(left_, formation);
  if (!is_left()) return;
  stop_.set();
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
  while (closed_.is_ok() && goes_on_after(why)) {
    const Parting parting{formation_, version_, gone_, why.message()};
    lock.unlock();
    mesh_.reset();  // by which the others hear of it
    Result<Meeting> meeting = parts_.meet(parting);
    lock.lock();
    if (!closed_.is_ok()) return closed_;
    if (!meeting.is_ok()) return meeting.status();
    formation_ = meeting->formation;
    gone_.reset();
    why = unavailable("formation " + std::to_string(formation_) + " is over");
    if (is_left()) continue;
    stop_.forget();
    lock.unlock();
    why = take_over(*meeting);
    lock.lock();
    if (mesh_ != nullptr && mesh_->gone()) gone_ = place_.node_of(*mesh_->gone());
    if (why.is_ok()) return closed_;
  }
  return closed_.is_ok() ? why : closed_;
}

Status AllReduceExchange::take_over(const Meeting& meeting) {
  PACELINE_RETURN_IF_ERROR(join(meeting.listening, meeting.place));
  reductions_ = 0;
  plan();
  if (!meeting.holder) return Status::ok();
  const bool holds = rank_ == *meeting.holder;
  const auto size = static_cast<std::size_t>(parts_.layout.size());
  const auto vectors = static_cast<std::size_t>(1 + state_vectors(parts_.config.train.optimizer.kind));
  RunState given{meeting.version, {}};
  if (holds) given = state();
  given.floats.resize(vectors * size);
  for (std::size_t v = 0; v < vectors; ++v) {
    PACELINE_RETURN_IF_ERROR(give(std::span(given.floats).subspan(v * size, size), holds));
  }
  const std::lock_guard lock(mutex_);
  bytes_counted_ = mesh_->bytes_sent();
  if (version_ == meeting.version) return Status::ok();
  PACELINE_RETURN_IF_ERROR(restore(given));
  begin_round();
  return Status::ok();
}

// One rank's floats go to all as a sum: of them and of -0, which changes the bits of no float.
Status AllReduceExchange::give(std::span<float> floats, bool holds) {
  const Result<schedule::Plan> made =
      schedule::make_plan({schedule::Algorithm::kAuto, ranks_, std::ssize(floats), {}});
  const Status checked = made.is_ok() ? schedule::check(*made) : made.status();
  PACELINE_ASSERT(checked.is_ok(), checked.message());
  if (holds) {
    std::copy(floats.begin(), floats.end(), sum_.begin());
  } else {
    std::fill(sum_.begin(), sum_.end(), -0.0F);
  }
  PACELINE_RETURN_IF_ERROR(mesh_->reduce(schedule::Program(*made, rank_), sum_, reductions_++, silence()));
  std::copy(sum_.begin(), sum_.end(), floats.begin());
  return Status::ok();
}

// ---- training threads

void AllReduceExchange::hand_over(const Contribution& gradient, std::int64_t final_from) {
  own_.at(gradient.worker.thread) = Own{gradient.values, final_from};
  changed_.notify_all();
}

// The first float is final with push() alone: the gradient counts only then, and the round must not end before.
void AllReduceExchange::push_early(const Contribution& gradient, std::int64_t begin) {
  const std::lock_guard lock(mutex_);
  hand_over(gradient, std::max<std::int64_t>(begin, 1));
}

void AllReduceExchange::withdraw(const Contribution& gradient) {
  const std::lock_guard lock(mutex_);
  own_.at(gradient.worker.thread).reset();
}

void AllReduceExchange::push(Contribution gradient) {
  std::unique_lock lock(mutex_);
  hand_over(gradient, 0);
  changed_.wait(lock, [&] { return !closed_.is_ok() || version_.value > gradient.clock.value; });
}

Ticket AllReduceExchange::request_parameters(Version min_version) {
  const std::lock_guard lock(mutex_);
  if (version_ >= min_version) install();
  return static_cast<Ticket>(min_version.value);
}

// The state is shared, not copied: the next one is written beside it.
void AllReduceExchange::install() {
  const auto block = std::make_shared<BlockRef>(parameters_.ref(0));
  const auto bytes = std::as_bytes(parameters_.block(0));
  cache::SliceStamp stamp{version_, Revision(version_.value * parts_.config.cluster.cluster().workers()),
                          std::vector<Clock>(threads_, Clock(version_.value))};
  parts_.cache.install(
      kAll,
      std::make_shared<const Slice>(Slice{
          {0, parameters_.size()}, std::move(stamp), {{0, Payload{block, bytes.data(), bytes.size()}}}}));
}

Result<Ticks> AllReduceExchange::await_parameters(Ticket ticket, ParameterSink&) {
  std::unique_lock lock(mutex_);
  const Version asked(static_cast<std::int64_t>(ticket));
  changed_.wait(lock, [&] { return !closed_.is_ok() || version_ >= asked; });
  if (!closed_.is_ok()) return closed_;
  install();
  return since_;
}

Result<std::optional<Ticks>> AllReduceExchange::await_ahead(std::uint32_t, Ticket ticket,
                                                            ParameterSink& landing) {
  PACELINE_ASSIGN_OR_RETURN(const Ticks installed, await_parameters(ticket, landing));
  return std::optional(installed);
}

std::optional<Ticks> AllReduceExchange::parameters_installed(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  if (version_ < Version(static_cast<std::int64_t>(ticket))) return std::nullopt;
  install();
  return since_;
}

EarlyPush AllReduceExchange::pushed_early(WorkerId worker, Ticks until) const {
  const std::lock_guard lock(mutex_);
  EarlyPush early = reduced_;
  if (reduces_since_) early.hidden += until - *reduces_since_;
  if (worker.thread != 0) early.bytes = 0;
  return early;
}

// ---- the exchange's thread

bool AllReduceExchange::is_final_from(std::int64_t begin) const {
  return std::all_of(own_.begin(), own_.end(),
                     [begin](const auto& own) { return own && own->final_from <= begin; });
}

void AllReduceExchange::reduce_rounds() {
  std::unique_lock lock(mutex_);
  for (;;) {
    Status reduced = reduce_round(lock);
    if (!reduced.is_ok() && closed_.is_ok()) reduced = meet_again(lock, reduced);
    if (reduced.is_ok()) continue;
    if (!closed_.is_ok()) return;  // stopped, and why is known
    closed_ = reduced;
    changed_.notify_all();
    lock.unlock();
    parts_.on_failure(reduced);
    return;
  }
}

Status AllReduceExchange::reduce_round(std::unique_lock<std::mutex>& lock) {
  for (const Bucket& bucket : buckets_) {
    changed_.wait(lock, [&] { return !closed_.is_ok() || is_left() || is_final_from(bucket.range.begin); });
    if (!closed_.is_ok()) return closed_;
    if (is_left()) return unavailable("formation " + std::to_string(formation_) + " is over");
    const std::vector<std::optional<Own>> own = own_;
    reduces_since_ = parts_.now();
    lock.unlock();
    const Status reduced = reduce_bucket(bucket, own);
    lock.lock();
    reduced_.hidden += parts_.now() - *std::exchange(reduces_since_, std::nullopt);
    reduced_.bytes += count_sent();
    if (const auto gone = mesh_->gone()) gone_ = place_.node_of(*gone);
    PACELINE_RETURN_IF_ERROR(reduced);
  }
  step();
  return Status::ok();
}

// Every gradient is finite, but their sum need not be: then no rank takes the step.
Status AllReduceExchange::reduce_bucket(const Bucket& bucket, const std::vector<std::optional<Own>>& own) {
  const auto begin = static_cast<std::size_t>(bucket.range.begin);
  const auto size = static_cast<std::size_t>(bucket.range.size());
  const std::span<float> sum = std::span(sum_).subspan(begin, size);
  // In the order of threads, as servers sum.
  begin_sum(sum, own[0]->values.floats.subspan(begin, size), weight_);
  for (std::uint32_t t = 1; t < threads_; ++t) {
    add_weighted(sum, own[t]->values.floats.subspan(begin, size), weight_);
  }
  PACELINE_RETURN_IF_ERROR(mesh_->reduce(*bucket.program, sum, reductions_++, silence()));
  const auto at = first_non_finite(sum);
  if (!at) return Status::ok();
  return invalid_argument(
      "the sum of all gradients is not finite: " +
      describe_non_finite(sum[static_cast<std::size_t>(*at)], bucket.range.begin + *at, parts_.layout));
}

// Every gradient is a mean over as many samples, so their mean is that of all.
void AllReduceExchange::step() {
  if (weight_ == 1.0F) scale(sum_, 1.0F / static_cast<float>(workers()));
  optimizer_.begin_step(rate_at(parts_.config, version_));
  if (optimizer_.measures()) optimizer_.measure(floats_of(parameters_.block(0)), floats_of(sum_));
  parameters_.rewrite(
      0, pool_, [&](std::span<const float> in, std::span<float> out) { optimizer_.apply(0, in, out, sum_); });
  ++version_.value;
  since_ = parts_.now();
  begin_round();
}

void AllReduceExchange::begin_round() {
  reduced_ = {};
  std::fill(own_.begin(), own_.end(), std::nullopt);
  changed_.notify_all();
}

std::int64_t AllReduceExchange::count_sent() {
  const std::int64_t sent = mesh_->bytes_sent() - std::exchange(bytes_counted_, mesh_->bytes_sent());
  bytes_sent_ += sent;
  return sent;
}

// ---- the end

void AllReduceExchange::stop() {
  close(aborted("the exchange is over"));
  if (thread_.joinable()) thread_.join();
}

void AllReduceExchange::close(const Status& why) {
  const std::lock_guard lock(mutex_);
  if (closed_.is_ok()) closed_ = why;
  stop_.set();
  changed_.notify_all();
}

void AllReduceExchange::keep(Version version) {
  const std::lock_guard lock(mutex_);
  if (version != version_ || (!kept_.empty() && kept_.back().first == version)) return;
  kept_.emplace_back(version, parameters_);
  if (kept_.size() > kKeptMax) kept_.pop_front();
}

// What is asked for later is a later version.
Status AllReduceExchange::fetch_exact(Version version, std::span<float> flat) {
  BlockRange found;
  {
    const std::lock_guard lock(mutex_);
    if (!closed_.is_ok()) return closed_;
    const auto kept =
        std::find_if(kept_.begin(), kept_.end(), [&](const auto& k) { return k.first == version; });
    if (kept == kept_.end() && version != version_) {
      return not_found("version " + to_string(version) + " is no longer here, which is at " +
                       to_string(version_));
    }
    found = kept == kept_.end() ? parameters_ : kept->second;
    std::erase_if(kept_, [&](const auto& k) { return k.first <= version; });
  }
  found.copy_to(0, flat);
  return Status::ok();
}

// Copied behind the lock: the next step is made beside what is held here.
std::shared_ptr<const RunState> AllReduceExchange::state_at(Version version) const {
  std::unique_lock lock(mutex_);
  if (version != version_) return nullptr;
  const BlockRange parameters = parameters_;
  const OptimizerImage image = optimizer_.image();
  lock.unlock();
  auto state = std::make_shared<RunState>(RunState{version, {}});
  for (const BlockRange* vector : {&parameters, &image.first, &image.second}) {
    const std::size_t begin = state->floats.size();
    state->floats.resize(begin + static_cast<std::size_t>(vector->size()));
    vector->copy_to(0, std::span(state->floats).subspan(begin));
  }
  return state;
}

Version AllReduceExchange::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

RunState AllReduceExchange::state() const { return *state_at(version()); }

std::int64_t AllReduceExchange::bytes_sent() const {
  const std::lock_guard lock(mutex_);
  return bytes_sent_;
}

std::vector<std::string> AllReduceExchange::algorithms() const {
  std::vector<std::string> lines;
  for (const MeasuredChoice& choice : choices_) lines.push_back(choice.words());
  if (lines.empty())
    lines.push_back(std::string("all: ") + name_of(parts_.config.exchange.algorithm) + ", as configured");
  return lines;
}

std::optional<NodeId> AllReduceExchange::gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

}  // namespace paceline
