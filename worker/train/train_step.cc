#include "worker/train/train_step.h"

#include <utility>
#include <vector>

#include "worker/train/emulated_compute.h"
#include "worker/train/leaving_gradient.h"
#include "worker/train/read_parameters.h"

namespace paceline {
namespace {

// Each server is told which of its states the gradient was computed with.
std::vector<Revision> slice_revisions(const Training& t) {
  std::vector<Revision> revisions;
  for (std::uint32_t k = 0; k < t.cache.stamp().shards(); ++k) {
    revisions.push_back(t.cache.stamp().slice(ShardId(k)).revision);
  }
  return revisions;
}

// In the shadow of computing: beside the phases, in none of them.
void record_early(Training& t, const LeavingGradient& gradient) {
  const EarlyPush early = gradient.early(t.clock());
  t.phases.add_hidden(Phase::kPsApplyGrads, early.hidden);
  t.bytes_early += early.bytes;
}

// For the emulator: waiting for parameters is in an iteration's time, as it is in read_parameters(), also
// where they were still landing when the grant arrived.
Ticks begin_of_iteration(Training& t, const Granted& granted) {
  const bool landing = t.landed && t.landed->done > granted.arrived;
  return landing ? granted.arrived : t.pace.now();
}

}  // namespace

Status train_step(Training& t, const Granted& granted) {
  const wire::Grant& grant = granted.grant;
  const BatchPart batch{grant.position, grant.samples};
  const Ticks started = begin_of_iteration(t, granted);
  PACELINE_RETURN_IF_ERROR(t.batches.check_granted(batch));

  // T_CACHE_PARAM, P_CACHE_PARAM or PS_PARAM: parameters no older than the grant allows, own updates in them.
  // Waiting for a server is the end of the exchange that the last iteration began.
  PACELINE_RETURN_IF_ERROR(read_parameters(t, granted));
  const Version version = t.cache.stamp().version();
  const Revision revision = t.cache.stamp().revision();
  const auto own_updates = static_cast<std::int64_t>(t.cache.kept());
  const Step step{t.worker,          grant.clock, grant.iteration, grant.threshold,
                  grant.min_version, version,     revision,        batch};

  const Phase reading = t.phases.current();
  t.phases.enter(Phase::kBatch);
  {
    const auto at_work = working(t.watch, WorkWatch::Work::kBatch, grant.clock);
    PACELINE_RETURN_IF_ERROR(t.task.load(step));
  }

  t.phases.enter(Phase::kComputeGrads);
  const FetchAhead ahead = fetch_ahead(t, grant);
  PACELINE_ASSIGN_OR_RETURN(const auto gradient, t.gradients.acquire(t.deadline));
  // What the task says is final leaves while it computes the rest.
  LeavingGradient leaving(
      t.exchange, {t.worker, grant.clock, 0, version, revision, gradient, own_updates, slice_revisions(t)},
      t.looks);
  const Ticks computing = t.clock();
  const auto computed =
      compute_at_pace(t, grant, started, *gradient, [&](std::int64_t begin) { leaving.final_from(begin); });
  const auto compute_time = t.clock() - computing;
  Status done = computed.status();
  if (done.is_ok()) done = leaving.mistake();
  if (done.is_ok()) done = t.batches.check_counted(batch, computed.value());
  if (!done.is_ok()) {
    leaving.withdraw();
    return done;
  }
  const Metric& metric = computed.value();
  t.phases.began_late(t.cache.went_on(), reading);
  record_hidden(t, ahead);
  record_early(t, leaving);
  pull_ahead_of_push(t, grant);  // what has not left follows it
  const std::string fault = leaving.fault(metric, t.layout);

  if (t.applies_locally && fault.empty()) {
    // What can wait is applied by the next read, if that needs it.
    if (t.cache.applies_at_once()) t.phases.enter(Phase::kApplyGrads);
    t.cache.apply_locally(grant.clock, gradient, grant.learning_rate, grant.local_scale);
    if (Status applied = t.cache.status(); !applied.is_ok()) {
      leaving.withdraw();
      return applied;
    }
  }

  // The exchange: gradient and clock go up, grant and parameters come down. Which phases its time belongs to
  // is known at its end (common/timing/exchange.h). A gradient that is not finite is not sent, or taken back;
  // the clock still closes.
  t.phases.enter(Phase::kPsApplyGrads);
  fault.empty() ? leaving.push(metric.samples) : leaving.withdraw();
  const Ticks reporting = t.clock();
  t.exchange.report(
      {t.worker, grant.clock, metric, version, revision, !fault.empty(), fault, own_updates, compute_time});
  t.reporting = t.clock() - reporting;
  pull_behind_push(t, grant);

  ++(fault.empty() ? t.iterations : t.skipped);
  return Status::ok();
}

}  // namespace paceline
