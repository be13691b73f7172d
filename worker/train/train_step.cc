#include "worker/train/train_step.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "common/assert.h"
#include "common/params/non_finite.h"
#include "common/params/vector_ops.h"
#include "worker/train/emulated_compute.h"

namespace paceline {
namespace {

// Each server is told which of its states the gradient was computed with.
std::vector<Revision> slice_revisions(const cache::SnapshotStamp& stamp) {
  std::vector<Revision> revisions;
  for (std::uint32_t k = 0; k < stamp.shards(); ++k) revisions.push_back(stamp.slice(ShardId(k)).revision);
  return revisions;
}

}  // namespace

Result<Finished> TrainStep::run() {
  actions_.push_back(step::AwaitInstruction{});
  while (!finished_) {
    PACELINE_ASSERT(!actions_.empty(), "worker " + to_string(t_.worker) + " has nothing to do");
    for (const step::Action& action : std::exchange(actions_, {})) {
      PACELINE_RETURN_IF_ERROR(std::visit([this](const auto& a) { return carry_out(a); }, action));
    }
  }
  return *std::move(finished_);
}

// The step as a whole: what begins, and with what it ends.

Status TrainStep::carry_out(const step::AwaitInstruction&) {
  PACELINE_ASSIGN_OR_RETURN(Instruction next, t_.coordinator.next_instruction(t_.worker.thread));
  if (const auto* const granted = std::get_if<Granted>(&next)) return begin(*granted);
  finished_ = std::get<Finished>(std::move(next));
  return advance(step::Finished{});
}

Status TrainStep::begin(const Granted& granted) {
  const Ticks now = t_.pace.now();
  t_.process_cache.note_existence(granted.grant.version, granted.grant.revision);
  const bool first = !t_.step.begun();
  PACELINE_RETURN_IF_ERROR(advance(step::Granted{granted.grant, granted.arrived, view()}));
  if (Status batch = t_.batches.check_granted(granted.grant.batch); !batch.is_ok()) return give_up(batch);
  if (first && t_.local && t_.local->states != nullptr) {
    const auto former = granted.grant.starts_over ? InnerStates::Former::kNone : InnerStates::Former::kCounts;
    t_.local->states->begin(t_.worker.thread, granted.grant.clock, former, t_.local->steps);
  }
  reported_ = granted.report;
  // Waiting for parameters is in an iteration's time, also where they were still on their way when the grant
  // arrived.
  started_ = t_.step.installed_after_grant() ? granted.arrived : now;
  t_.phases.at(granted.grant.clock);
  if (!t_.phases.running()) t_.phases.begin(Phase::kPsParam);
  return Status::ok();
}

// Why the round cannot be ended. What has left of its gradient is taken back.
Status TrainStep::give_up(Status why) {
  if (upload_) upload_->withdraw();
  return std::move(why).with_context("worker " + to_string(t_.worker) + " at clock " +
                                     to_string(t_.step.grant().clock));
}

// Whether the pull is installed is looked at first: what it calls installed must be seen in the process cache.
step::View TrainStep::view() const {
  const bool installed =
      pulled_.size() == fragments() && std::all_of(pulled_.begin(), pulled_.end(), [this](Ticket ticket) {
        return t_.exchange.parameters_installed(ticket).has_value();
      });
  return {installed, t_.process_cache.newest_known(), t_.cache.state(), t_.process_cache.state()};
}

// Parameters.

Status TrainStep::carry_out(const step::Pull& action) {
  const Ticket ticket = action.installs_early ? t_.exchange.request_early(action.min_version)
                                              : request(action.min_version, action.fragment);
  if (action.when == step::PullWhen::kPrefetch) {
    prefetch_ = {ticket, t_.clock()};
    return Status::ok();
  }
  if (action.fragment == 0) pulled_.clear();
  pulled_.push_back(ticket);
  return Status::ok();
}

Ticket TrainStep::request(Version min_version, std::int64_t fragment) {
  return in_fragments() ? t_.exchange.request_fragment(min_version, fragment)
                        : t_.exchange.request_parameters(min_version);
}

Status TrainStep::carry_out(const step::InstallEarly&) {
  PACELINE_ASSIGN_OR_RETURN(const std::optional<Ticks> installed,
                            t_.exchange.await_early(t_.worker.thread, pulled_.front(), t_.cache));
  if (!installed) return Status::ok();  // nothing follows
  return advance(step::InstalledEarly{*installed, t_.clock(), t_.cache.has_partial(), view()});
}

// A pull that was seen not to be answered may be by now, and then nobody would join it: whoever asked again
// would be told that nothing has changed.
Status TrainStep::carry_out(const step::AwaitParameters& action) {
  std::vector<Ticket> tickets;
  for (std::size_t n = 0; n < fragments(); ++n) {
    const bool asked = action.pulled_with_push && n < pulled_.size();
    tickets.push_back(asked ? pulled_[n] : request(action.min_version, static_cast<std::int64_t>(n)));
  }
  Ticks last;
  for (const Ticket ticket : tickets) {
    const Result<Ticks> installed = t_.exchange.await_parameters(ticket, t_.cache);
    if (!installed.is_ok()) return give_up(installed.status());
    last = std::max(last, *installed);
  }
  return advance(step::Arrived{last, t_.clock()});
}

// T_CACHE_PARAM or P_CACHE_PARAM: parameters no older than the grant allows, own updates in them.
Status TrainStep::carry_out(const step::MakeCurrent& action) {
  const step::Grant& grant = t_.step.grant();
  const Phase phase = action.refresh ? Phase::kPCacheParam : Phase::kTCacheParam;
  if (action.first) {
    t_.phases.enter(phase);
  } else {
    t_.phases.end_exchange({grant.held, action.parameters, report_time(reported_)}, phase);
  }
  if (action.refresh) t_.cache.refresh(t_.process_cache.snapshot(), grant.clock);
  apply_what_was_put_off();
  if (Status cache = t_.cache.status(); !cache.is_ok()) return give_up(cache);
  reading_ = t_.phases.current();
  return advance(step::ParametersCurrent{});
}

// What was left until now of applying own gradients: on slices that stay, and whose buffer is needed. The
// last gradient's never is: two are enough for the next.
void TrainStep::apply_what_was_put_off() {
  const auto needs_a_buffer = [this] { return t_.cache.gradients_held() > 1 && !t_.gradients.ready(); };
  if (!t_.cache.waits() && !needs_a_buffer()) return;
  t_.phases.enter(Phase::kApplyGrads);
  t_.cache.apply_deferred();
  while (needs_a_buffer()) t_.cache.keep_difference();
}

// The gradient.

Status TrainStep::carry_out(const step::LoadBatch& action) {
  const step::Grant& grant = t_.step.grant();
  const cache::SnapshotStamp& stamp = t_.cache.stamp();
  const std::int64_t n = action.local_step;
  const Step granted{t_.worker,        grant.clock,       local_place(grant.iteration, n),
                     grant.threshold,  grant.min_version, stamp.version(),
                     stamp.revision(), local_batch(n),    n,
                     local_steps(),    grant.loss_scale};
  step_began_ = t_.pace.now();
  if (n == 0) {
    prefetch_.reset();
    round_began_ = step_began_;
  } else {
    started_ = step_began_;
  }
  t_.phases.enter(Phase::kBatch);
  {
    const auto at_work = working(t_.watch, WorkWatch::Work::kBatch, grant.clock);
    if (Status loaded = t_.task.load(granted); !loaded.is_ok()) return give_up(loaded);
  }
  t_.phases.enter(Phase::kComputeGrads);
  return advance(step::BatchLoaded{view()});
}

// What the round's contribution is made in.
Status TrainStep::begin_computing() {
  const cache::SnapshotStamp& stamp = t_.cache.stamp();
  own_updates_ = static_cast<std::int64_t>(t_.cache.kept());
  metric_ = {};
  compute_time_ = {};
  PACELINE_ASSIGN_OR_RETURN(gradient_, t_.gradients.acquire(t_.deadline));
  upload_.emplace(t_.exchange,
                  Contribution{t_.worker, t_.step.grant().clock, 0, stamp.version(), stamp.revision(),
                               gradient_, own_updates_, slice_revisions(stamp)},
                  t_.checks_finite);
  if (t_.local) t_.local->steps.begin(t_.cache.parameters());
  if (in_fragments() && beside_ == nullptr) {
    PACELINE_ASSIGN_OR_RETURN(beside_, t_.local->beside->acquire(t_.deadline));
  }
  return Status::ok();
}

Status TrainStep::carry_out(const step::Compute& action) {
  if (action.local_step == 0) {
    if (Status begun = begin_computing(); !begun.is_ok()) return give_up(begun);
  }
  const Ticks computing = t_.clock();
  const Result<Metric> computed = compute(action.local_step);
  compute_time_ += t_.clock() - computing;
  if (!computed.is_ok()) return give_up(computed.status());
  if (const auto waited = t_.task.waited(); waited.count() > 0) {  // for other stages
    compute_time_ -= waited;
    t_.phases.shift_start(waited, Phase::kBarrier);
  }
  metric_ += *computed;
  const bool finite = std::isfinite(metric_.loss_sum);
  taken_ = action.local_step + 1;
  const Ticks done = t_.pace.now();
  const bool late = t_.local && t_.local->timed != nullptr &&
                    t_.local->timed->step_took(done - round_began_, done - step_began_);
  if (finite && taken_ == local_steps()) {
    const Status counted = t_.batches.check_counted(t_.step.grant().batch, metric_);
    if (!counted.is_ok()) return give_up(counted);
  }
  const auto overlap = t_.cache.take_device_overlap();
  if (action.local_step == 0) t_.phases.shift_start(overlap, reading_);
  if (!finite || late || taken_ == local_steps()) {
    record_hidden();
    pulled_.clear();  // what was pulled with the last push
  }
  return advance(step::GradientComputed{view(), finite, late});
}

// What the task says is final leaves while it computes the rest, unless a cluster is emulated: there real layers take
// no emulated time, and nothing is to leave before the emulated end.
Result<Metric> TrainStep::compute(std::int64_t local_step) {
  if (!t_.emulates()) {
    return compute_now(local_step, [this](std::int64_t begin) { upload_->final_from(begin); });
  }
  const Clock clock(local_place(t_.step.grant().clock.value, local_step));
  return compute_at_pace(t_, {clock, local_batch(local_step).samples, started_},
                         [&] { return compute_now(local_step, whole_at_the_end); });
}

// With local steps a step of the inner optimizer follows, and nothing leaves but what is cut (SendFragment).
Result<Metric> TrainStep::compute_now(std::int64_t local_step, const FinalFrom& final_from) {
  const step::Grant& grant = t_.step.grant();
  const auto at_work = working(t_.watch, WorkWatch::Work::kGradient, grant.clock);
  if (!t_.local) {
    PACELINE_ASSIGN_OR_RETURN(const Metric metric,
                              t_.task.compute(t_.cache.parameters(), *gradient_, final_from));
    PACELINE_RETURN_IF_ERROR(upload_->mistake());
    return metric;
  }
  LocalSteps& steps = t_.local->steps;
  GradientBuffers::Buffer& gradient = beside_ != nullptr ? *beside_ : *gradient_;
  PACELINE_ASSIGN_OR_RETURN(const Metric metric,
                            t_.task.compute(steps.parameters(), gradient, whole_at_the_end));
  // Of a step that is not finite the gradient stays, which says where.
  if (std::isfinite(metric.loss_sum))
    steps.step(gradient, t_.local->rate(local_place(grant.iteration, local_step)));
  return metric;
}

// The first to leave is the last in the layout.
Status TrainStep::carry_out(const step::SendFragment& action) {
  t_.phases.enter(Phase::kPsApplyGrads);  // until the next batch
  const std::vector<Range>& fragments = t_.local->fragments;
  const Range part = fragments[fragments.size() - 1 - static_cast<std::size_t>(action.n)];
  t_.local->steps.cut(part, t_.cache.parameters(), *gradient_);
  upload_->final_from(part.begin);
  return upload_->mistake();
}

// In the shadow of computing: beside the phases, in none of them.
void TrainStep::record_hidden() {
  if (prefetch_) {
    const Ticks until = t_.exchange.parameters_installed(prefetch_->ticket).value_or(t_.clock());
    t_.phases.add_hidden(Phase::kPsParam,
                         std::max(until - prefetch_->since, std::chrono::nanoseconds::zero()));
  }
  const EarlyPush early = upload_->early(t_.clock());
  t_.phases.add_hidden(Phase::kPsApplyGrads, early.hidden);
  t_.bytes_early += early.bytes;
}

Status TrainStep::carry_out(const step::CheckGradient&) {
  const bool is_finite = std::isfinite(metric_.loss_sum);
  if (t_.local && is_finite) t_.local->steps.delta(t_.cache.parameters(), *gradient_);
  fault_ = is_finite || beside_ == nullptr
               ? upload_->fault(metric_, t_.layout)
               : describe_non_finite(metric_, *beside_, first_non_finite(*beside_), t_.layout);
  return advance(step::GradientChecked{fault_.empty()});
}

Status TrainStep::carry_out(const step::ApplyLocally&) {
  const step::Grant& grant = t_.step.grant();
  // What can wait is applied by the next round, if that needs it.
  if (t_.cache.applies_at_once()) t_.phases.enter(Phase::kApplyGrads);
  t_.cache.apply_locally(grant.clock, gradient_, grant.learning_rate, grant.local_scale);
  if (Status applied = t_.cache.status(); !applied.is_ok()) return give_up(applied);
  return advance(step::AppliedLocally{});
}

// The exchange: gradient and clock go up, grant and parameters come down. Which phases its time belongs to is
// known at its end (common/timing/exchange.h).

Status TrainStep::carry_out(const step::Contribute&) {
  t_.phases.enter(Phase::kPsApplyGrads);
  upload_->push(metric_.samples);
  fault_ = t_.exchange.left_out(t_.step.grant().clock);
  if (fault_.empty()) {
    t_.contributed += taken_;
  } else {
    t_.skipped += local_steps();
  }
  return Status::ok();
}

Status TrainStep::carry_out(const step::Withdraw&) {
  t_.phases.enter(Phase::kPsApplyGrads);
  upload_->push_not_finite(*gradient_);
  t_.skipped += local_steps();
  if (t_.local) t_.local->steps.forget();
  return Status::ok();
}

Status TrainStep::carry_out(const step::Report& action) {
  const cache::SnapshotStamp& stamp = t_.cache.stamp();
  if (t_.local && t_.local->states != nullptr) {
    t_.local->states->completed(t_.worker.thread, t_.step.grant().clock, t_.local->steps);
  }
  const Ticks reporting = t_.clock();
  t_.coordinator.report({t_.worker, t_.step.grant().clock, metric_, stamp.version(), stamp.revision(),
                         action.skipped || !fault_.empty(), fault_, own_updates_, compute_time_,
                         t_.task.loss_scale()});
  reporting_ = t_.clock() - reporting;
  upload_.reset();
  gradient_.reset();
  if (t_.shown != nullptr) t_.shown->show(t_.phases.times());
  return advance(step::Sent{view()});
}

}  // namespace paceline
