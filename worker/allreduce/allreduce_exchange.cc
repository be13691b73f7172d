#include "worker/allreduce/allreduce_exchange.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <utility>

#include "common/assert.h"
#include "common/config/reducing.h"
#include "common/encode/encode.h"
#include "common/host_port.h"
#include "common/params/non_finite.h"
#include "common/params/vector_ops.h"
#include "common/schedule/buckets.h"
#include "common/schedule/check.h"
#include "common/schedule/planners.h"
#include "worker/allreduce/kept_choices.h"
#include "worker/mesh/handshake.h"

namespace paceline {
namespace {

constexpr ShardId kAll{0};  // the only range
// For how long a peer may fall silent in the middle of a transfer. The authority, which hears of every node, has the
// first word: a lease.
constexpr int kSilenceLeases = 2;

// For the vector that is reduced. Where none can be had everything is sent.
std::shared_ptr<wire::SharedSegment> segment_for(const RunConfig& config, std::int64_t floats) {
  const std::uint32_t ranks = reducing_ranks(config);
  if (config.cluster.shared_memory == SharedMemory::kOff || ranks == 1 || floats == 0) return nullptr;
  auto segment = wire::SharedSegment::create(mesh::SharedPeers::segment_bytes(floats, ranks));
  return segment.is_ok() ? std::move(segment).value() : nullptr;
}

std::pmr::memory_resource* memory_of(const std::shared_ptr<wire::SharedSegment>& segment) {
  return segment == nullptr ? std::pmr::get_default_resource() : segment.get();
}

std::chrono::milliseconds milliseconds(Duration time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time);
}

std::span<float> bucket_part(std::span<float> all, Range range) {
  return all.subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.size()));
}

// As whoever sends it on rounds it, where every node steps everything.
void round_as(Encoding encoding, std::span<float> floats) {
  constexpr std::size_t kAtOnce = 1024;
  alignas(float) std::array<std::byte, kAtOnce * sizeof(float)> bytes;
  const Encoder encoder{encoding};
  while (!floats.empty()) {
    const std::span<float> some = floats.first(std::min(kAtOnce, floats.size()));
    const std::span<std::byte> coded = std::span(bytes).first(encoder.bytes_of(std::ssize(some)));
    encoder.encode(some, coded);
    const Status decoded = decode(encoding, coded, some);
    PACELINE_ASSERT(decoded.is_ok(), decoded.message());
    floats = floats.subspan(some.size());
  }
}

}  // namespace

AllReduceExchange::AllReduceExchange(Parts parts)
    : parts_(std::move(parts)),
      threads_(parts_.config.cluster.threads_per_node),
      segment_(segment_for(parts_.config, parts_.layout.size())),
      sum_(static_cast<std::size_t>(parts_.layout.size()), memory_of(segment_)),
      own_(threads_),
      model_(parts_.config, parts_.layout, parts_.place.value_or(PlaceInRun{0, parts_.layout.size()})) {
  PACELINE_ASSERT(parts_.cache.ranges().size() == 1,
                  std::to_string(parts_.cache.ranges().size()) + " ranges, expected one of all parameters");
}

AllReduceExchange::~AllReduceExchange() { stop(); }

std::chrono::milliseconds AllReduceExchange::silence() const {
  return kSilenceLeases * milliseconds(parts_.config.cluster.lease);
}

Status AllReduceExchange::connect(const mesh::Listening& listening, mesh::Place place) {
  return begin_formation(join(listening, std::move(place)));
}

Status AllReduceExchange::connect(mesh::Sockets sockets, mesh::Place place) {
  return begin_formation(join(std::move(sockets), std::move(place)));
}

Status AllReduceExchange::begin_formation(Status joined) {
  Status ready = std::move(joined);
  if (ready.is_ok()) ready = measure();
  if (mesh_ != nullptr && mesh_->gone()) {
    const std::lock_guard lock(mutex_);
    gone_ = place_.node_of(*mesh_->gone());
  }
  if (ready.is_ok()) plan();
  return ready;
}

Status AllReduceExchange::join(const mesh::Listening& listening, mesh::Place place) {
  PACELINE_ASSIGN_OR_RETURN(
      mesh::Sockets sockets,
      mesh::shake_hands(listening, place, stop_, milliseconds(parts_.config.cluster.start_timeout)));
  return join(std::move(sockets), std::move(place));
}

Status AllReduceExchange::join(mesh::Sockets sockets, mesh::Place place) {
  place.shares = true;
  place_ = place;
  forget(place_.key);
  ranks_ = {place_.rank, static_cast<std::uint32_t>(place_.endpoints.size()), mesh::machines_of(place_)};
  const bool whole = parts_.config.cluster.gradient_encoding == Encoding::kFp32;
  weight_ = whole ? 1.0F : 1.0F / static_cast<float>(workers());
  const std::span<const std::byte> sum = std::as_bytes(std::span(sum_));
  const bool is_shared = segment_ != nullptr && segment_->offset_of(sum.data(), sum.size());
  PACELINE_ASSIGN_OR_RETURN(mesh_, mesh::Mesh::over(std::move(sockets), std::move(place), stop_,
                                                    milliseconds(parts_.config.cluster.start_timeout),
                                                    is_shared ? segment_ : nullptr));
  return Status::ok();
}

Status AllReduceExchange::measure() {
  const RunConfig& config = parts_.config;
  if (config.exchange.algorithm != schedule::Algorithm::kAuto || ranks_.ranks == 1) return Status::ok();
  std::vector<std::int64_t> floats;
  for (const Range& range : schedule::buckets(parts_.layout, config.exchange.bucket_bytes))
    floats.push_back(range.size());
  const MeasureRequest request{ranks_,
                               floats,
                               sum_,
                               config.cluster.gradient_encoding,
                               silence(),
                               parts_.now,
                               config.exchange.shard_optimizer};
  std::vector<std::string> hosts;
  for (const std::string& endpoint : place_.endpoints) hosts.push_back(host_and_port(endpoint).host);
  const std::filesystem::path file = choices_file(config, parts_.node);
  PACELINE_ASSIGN_OR_RETURN(choices_, choices_from(file, hosts, request, *mesh_, reductions_));
  return Status::ok();
}

// A run that ends with a loss needs nobody who keeps another's state.
void AllReduceExchange::plan() {
  BucketPlans plans =
      plan_buckets(parts_.config, parts_.layout, ranks_, choices_.choices, parts_.meet != nullptr);
  buckets_ = std::move(plans.buckets);
  shares_ = std::move(plans.shares);
  for (std::uint32_t rank = 0; rank < ranks_.ranks; ++rank) shares_.nodes.push_back(place_.node_of(rank));
  const std::lock_guard lock(mutex_);
  bytes_counted_ = mesh_->bytes_sent();
}

Status AllReduceExchange::begin(const RunState& from) {
  PACELINE_ASSERT(mesh_ != nullptr, "no connections");
  {
    const std::lock_guard lock(mutex_);
    PACELINE_RETURN_IF_ERROR(model_.begin(from, shares_));
    since_ = parts_.now();
  }
  thread_ = std::thread([this] { reduce_rounds(); });
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
    const Parting parting{formation_, model_.version(), gone_, why.message()};
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
  std::optional<RunState> given;
  if (meeting.holder) {
    PACELINE_ASSIGN_OR_RETURN(given, take_from(meeting));
  }
  std::optional<ShardedOptimizer::Held> moved;
  if (model_.is_sharded()) {
    PACELINE_ASSIGN_OR_RETURN(
        moved, model_.moved_to(shares_, meeting.version, sum_, [this] { return sum_all(sum_); }));
  }
  const std::lock_guard lock(mutex_);
  bytes_counted_ = mesh_->bytes_sent();
  if (moved) model_.move(*std::move(moved));
  if (!given) return Status::ok();
  PACELINE_RETURN_IF_ERROR(model_.take_over(*given));
  since_ = parts_.now();
  begin_round();
  return Status::ok();
}

// One rank's state goes to all as a sum: of it and of -0, which changes the bits of no float. Who has it drops it.
Result<std::optional<RunState>> AllReduceExchange::take_from(const Meeting& meeting) {
  const bool holds = ranks_.rank == *meeting.holder;
  std::optional<RunState> given;
  if (version() != meeting.version) given = RunState{meeting.version, {}};
  for (int vector = 0; vector < model_.vectors(); ++vector) {
    if (holds) {
      model_.copy_vector(vector, sum_);
    } else {
      std::fill(sum_.begin(), sum_.end(), -0.0F);
    }
    PACELINE_RETURN_IF_ERROR(sum_all(sum_));
    if (given) given->floats.insert(given->floats.end(), sum_.begin(), sum_.end());
  }
  return given;
}

// What is summed needs something of every node.
Status AllReduceExchange::await_all() {
  float nothing = 0.0F;
  PACELINE_RETURN_IF_ERROR(sum_all({&nothing, 1}));
  const std::lock_guard lock(mutex_);
  bytes_counted_ = mesh_->bytes_sent();
  return Status::ok();
}

Status AllReduceExchange::sum_all(std::span<float> floats) {
  const Result<schedule::Plan> made =
      schedule::make_plan({schedule::Algorithm::kAuto, ranks_.ranks, std::ssize(floats), {}});
  const Status checked = made.is_ok() ? schedule::check(*made) : made.status();
  PACELINE_ASSERT(checked.is_ok(), checked.message());
  return mesh_->reduce(schedule::Program(*made, ranks_.rank), floats, reductions_++, silence());
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
  changed_.wait(lock, [&] { return !closed_.is_ok() || model_.version().value > gradient.clock.value; });
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

Result<std::optional<Ticks>> AllReduceExchange::await_ahead(std::uint32_t, Ticket ticket,
                                                            ParameterSink& landing) {
  PACELINE_ASSIGN_OR_RETURN(const Ticks installed, await_parameters(ticket, landing));
  return std::optional(installed);
}

std::optional<Ticks> AllReduceExchange::parameters_installed(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  if (model_.version() < Version(static_cast<std::int64_t>(ticket))) return std::nullopt;
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
  for (std::size_t number = 0; number < buckets_.size(); ++number) {
    const std::int64_t begin = buckets_[number].range.begin;
    changed_.wait(lock, [&] { return !closed_.is_ok() || is_left() || is_final_from(begin); });
    if (!closed_.is_ok()) return closed_;
    if (is_left()) return unavailable("formation " + std::to_string(formation_) + " is over");
    const std::vector<std::optional<Own>> own = own_;
    reduces_since_ = parts_.now();
    lock.unlock();
    const Status reduced = reduce_bucket(number, own);
    lock.lock();
    const std::chrono::nanoseconds took = parts_.now() - *std::exchange(reduces_since_, std::nullopt);
    reduced_.hidden += took;
    reducing_ns_ += took.count();
    reduced_.bytes += count_sent();
    if (const auto gone = mesh_->gone()) gone_ = place_.node_of(*gone);
    PACELINE_RETURN_IF_ERROR(reduced);
  }
  return step(lock);
}

// Every gradient is finite, but their sum need not be: then no rank takes the step.
Status AllReduceExchange::reduce_bucket(std::size_t number, const std::vector<std::optional<Own>>& own) {
  const Bucket& bucket = buckets_[number];
  const auto begin = static_cast<std::size_t>(bucket.range.begin);
  const auto size = static_cast<std::size_t>(bucket.range.size());
  const std::span<float> sum = std::span(sum_).subspan(begin, size);
  // In the order of threads, as servers sum.
  begin_sum(sum, own[0]->values.floats.subspan(begin, size), weight_);
  for (std::uint32_t t = 1; t < threads_; ++t) {
    add_weighted(sum, own[t]->values.floats.subspan(begin, size), weight_);
  }
  const BucketPrograms& programs = *bucket.programs;
  PACELINE_RETURN_IF_ERROR(reduce(programs.sums, number, /*copies=*/false));
  const std::vector<Range> all = {{0, bucket.range.size()}};
  const bool rounds = model_.is_sharded() && ranks_.ranks > 1 && programs.sums.encoding != Encoding::kFp32;
  for (const Range& here : model_.is_sharded() ? programs.own : all) {
    const std::span<float> part = bucket_part(sum, here);
    if (rounds) round_as(programs.sums.encoding, part);
    const auto at = first_non_finite(part);
    if (!at) continue;
    return invalid_argument("the sum of all gradients is not finite: " +
                            describe_non_finite(part[static_cast<std::size_t>(*at)],
                                                bucket.range.begin + here.begin + *at, parts_.layout));
  }
  return Status::ok();
}

// Every gradient is a mean over as many samples, so their mean is that of all.
Status AllReduceExchange::step(std::unique_lock<std::mutex>& lock) {
  if (model_.is_sharded()) {
    scale_sum();
    model_.begin_step(sum_);
    const Ticks begin = parts_.now();
    lock.unlock();
    const Status copied = copy_parameters();
    lock.lock();
    reducing_ns_ += std::chrono::nanoseconds(parts_.now() - begin).count();
    count_sent();
    if (const auto gone = mesh_->gone()) gone_ = place_.node_of(*gone);
    PACELINE_RETURN_IF_ERROR(copied);
    model_.end_step(sum_);
  } else {
    scale_sum();
    model_.step(sum_);
  }
  since_ = parts_.now();
  begin_round();
  return Status::ok();
}

void AllReduceExchange::scale_sum() {
  if (weight_ != 1.0F) return;
  const float share = 1.0F / static_cast<float>(workers());
  if (!model_.is_sharded()) return scale(sum_, share);
  for (const Range& range : model_.parts()) scale(bucket_part(sum_, range), share);
}

Status AllReduceExchange::copy_parameters() {
  for (std::size_t number = 0; number < buckets_.size(); ++number) {
    PACELINE_RETURN_IF_ERROR(reduce(*buckets_[number].programs->copies, number, /*copies=*/true));
  }
  return Status::ok();
}

// Of a step, and so a bucket that is traced.
Status AllReduceExchange::reduce(const schedule::Program& program, std::size_t bucket, bool copies) {
  const std::int64_t sent = mesh_->bytes_sent();
  const Ticks begin = parts_.now();
  const std::span<float> floats = bucket_part(sum_, buckets_[bucket].range);
  PACELINE_RETURN_IF_ERROR(mesh_->reduce(program, floats, reductions_++, silence()));
  if (parts_.on_bucket) {
    parts_.on_bucket({begin, parts_.now() - begin, Clock(version().value), static_cast<std::int64_t>(bucket),
                      mesh_->bytes_sent() - sent, copies});
  }
  return Status::ok();
}

void AllReduceExchange::begin_round() {
  reduced_ = {};
  std::fill(own_.begin(), own_.end(), std::nullopt);
  changed_.notify_all();
}

std::int64_t AllReduceExchange::count_sent() {
  const std::int64_t sent = mesh_->bytes_sent() - std::exchange(bytes_counted_, mesh_->bytes_sent());
  bytes_reduced_ += sent;
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

Traffic AllReduceExchange::traffic() const {
  return {.reduced = bytes_reduced_, .reducing = std::chrono::nanoseconds(reducing_ns_)};
}

std::vector<std::string> AllReduceExchange::algorithms() const {
  std::vector<std::string> lines;
  for (const MeasuredChoice& choice : choices_.choices) {
    lines.push_back(choice.words() + (choices_.were_kept ? ", as measured before" : ""));
  }
  if (lines.empty())
    lines.push_back(std::string("all: ") + name_of(parts_.config.exchange.algorithm) + ", as configured");
  return lines;
}

std::optional<NodeId> AllReduceExchange::gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

}  // namespace paceline
