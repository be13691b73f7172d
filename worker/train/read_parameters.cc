#include "worker/train/read_parameters.h"

#include <algorithm>

#include "common/sync/test_hooks.h"

namespace paceline {
namespace {

// From waiting to reading: ends the running exchange, or (first iteration) the first phase. The last own
// gradient, whose local apply was left until a read needs it, is applied first if this one does. `taken`: the
// snapshot that is about to be taken; nullptr: none.
void enter_reading(Training& t, const Exchange& exchange, bool first, Phase reading, const Snapshot* taken) {
  if (first) return t.phases.enter(reading);
  const bool settles = taken == nullptr ? t.cache.waits() : t.cache.lacks_waiting(*taken);
  t.phases.end_exchange(exchange, settles ? Phase::kApplyGrads : reading);
  if (!settles) return;
  taken == nullptr ? t.cache.settle() : t.cache.settle_for(*taken);
  t.phases.enter(reading);
}

cache::PullBehindPush behind_push(const Training& t) {
  if (!t.behind_push) return cache::PullBehindPush::kNone;
  return t.exchange.parameters_installed(*t.behind_push) ? cache::PullBehindPush::kInstalled
                                                         : cache::PullBehindPush::kPending;
}

}  // namespace

Status read_parameters(Training& t, const Granted& granted) {
  const wire::Grant& grant = granted.grant;
  const bool first = !t.phases.running();
  if (first) t.phases.begin(Phase::kPsParam);
  ++t.parameter_reads;

  // Looked at before the process cache is: what it calls installed must be seen there.
  const cache::PullBehindPush behind = behind_push(t);
  t.process_cache.note_existence(grant.version, grant.revision);
  const cache::ProcessCacheState newest = t.process_cache.newest_known();
  const cache::ReadDecision decision = cache::decide_read(
      t.freshness, {grant.clock, grant.min_version, newest.version, newest.revision, behind}, t.cache.state(),
      t.process_cache.state());

  Exchange exchange{grant.held, std::nullopt, report_time(t, granted.report)};
  if (decision.source == cache::ReadSource::kServer) {
    ++t.server_reads;
    const Ticket ticket = t.exchange.request_parameters(decision.min_version);
    PACELINE_ASSIGN_OR_RETURN(const Ticks installed, t.exchange.await_parameters(ticket, t.cache));
    // Negative when they came before the grant: then nothing was waited for. Else until the last of them has
    // landed.
    exchange.parameters = (installed < granted.arrived ? installed : t.clock()) - granted.arrived;
  }
  if (decision.source == cache::ReadSource::kThreadCache) {
    enter_reading(t, exchange, first, Phase::kTCacheParam, nullptr);
    return Status::ok();
  }
  const Snapshot snapshot = t.process_cache.snapshot();
  const bool skipped = !first && decision.source == cache::ReadSource::kProcessCache &&
                       sync::broken(sync::Mutant::kRefreshSkipped);
  enter_reading(t, exchange, first, Phase::kPCacheParam, skipped ? nullptr : &snapshot);
  if (!skipped) t.cache.refresh(snapshot, grant.clock);
  return Status::ok();
}

FetchAhead fetch_ahead(Training& t, const wire::Grant& grant) {
  const cache::PullPlan plan =
      cache::prefetch(grant.clock, grant.threshold, t.process_cache.newest_known().version, t.cache.state(),
                      t.process_cache.state());
  if (!plan.send) return {};
  return {t.exchange.request_parameters(plan.min_version), t.clock()};
}

void record_hidden(Training& t, const FetchAhead& ahead) {
  if (!ahead.ticket) return;
  const Ticks until = t.exchange.parameters_installed(*ahead.ticket).value_or(t.clock());
  t.phases.add_hidden(Phase::kPsParam, std::max(until - ahead.since, std::chrono::nanoseconds::zero()));
}

void pull_behind_push(Training& t, const wire::Grant& grant) {
  const cache::PullPlan plan = cache::pull_with_push(t.freshness, grant.clock, grant.threshold,
                                                     t.cache.state(), t.process_cache.state());
  t.behind_push.reset();
  if (plan.send) t.behind_push = t.exchange.request_parameters(plan.min_version);
}

}  // namespace paceline
