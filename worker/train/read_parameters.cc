#include "worker/train/read_parameters.h"

#include <algorithm>

#include "common/cache/freshness.h"
#include "common/sync/test_hooks.h"

namespace paceline {
namespace {

// From waiting to reading: ends the running exchange, or (first iteration) the first phase.
void enter_reading(Training& t, const Exchange& exchange, bool first, Phase reading) {
  first ? t.phases.enter(reading) : t.phases.end_exchange(exchange, reading);
}

// What was left until now of applying own gradients: on slices that stay, and whose buffer is needed. The
// last gradient's never is: two are enough for the next.
void settle(Training& t) {
  const auto needs_a_buffer = [&t] { return t.cache.gradients_held() > 1 && !t.gradients.ready(); };
  if (!t.cache.waits() && !needs_a_buffer()) return;
  t.phases.enter(Phase::kApplyGrads);
  t.cache.settle();
  while (needs_a_buffer()) t.cache.keep_difference();
}

cache::PullWithPush with_push(const Training& t) {
  if (!t.with_push) return cache::PullWithPush::kNone;
  return t.exchange.parameters_installed(t.with_push->ticket) ? cache::PullWithPush::kInstalled
                                                              : cache::PullWithPush::kPending;
}

cache::FreshnessRules rules(const Training& t, const wire::Grant& grant) {
  return {grant.apply, t.refresh_clocks, t.pulls_ahead};
}

// A pull that was pending when it was decided that the servers are needed may be answered by now, and then
// nobody would join it: whoever asked again would be told that nothing has changed.
Ticket ticket_for(Training& t, Version min_version, Version newest_known, cache::PullWithPush asked) {
  const bool comes = asked == cache::PullWithPush::kPending &&
                     cache::serves(t.with_push->min_version, min_version, newest_known);
  return comes ? t.with_push->ticket : t.exchange.request_parameters(min_version);
}

}  // namespace

Status read_parameters(Training& t, const Granted& granted) {
  const wire::Grant& grant = granted.grant;
  const bool first = !t.phases.running();
  t.phases.at(grant.clock);
  if (first) t.phases.begin(Phase::kPsParam);
  ++t.parameter_reads;

  // Looked at before the process cache is: what it calls installed must be seen there.
  const cache::PullWithPush asked = with_push(t);
  t.process_cache.note_existence(grant.version, grant.revision);
  const cache::ProcessCacheState newest = t.process_cache.newest_known();
  const cache::ReadDecision decision = cache::decide_read(
      rules(t, grant), {grant.clock, grant.min_version, newest.version, newest.revision, asked},
      t.cache.state(), t.process_cache.state());

  Exchange exchange{grant.held, std::nullopt, report_time(t, granted.report)};
  // With the grant there: that they land then is PS_PARAM, too, but only what is not here is waited for.
  if (t.landed && t.landed->done > granted.arrived) exchange.parameters = t.landed->done - granted.arrived;
  const bool waited = t.landed && t.landed->installed > granted.arrived;
  if (waited || decision.source == cache::ReadSource::kServer) ++t.server_reads;
  if (decision.source == cache::ReadSource::kServer) {
    const Ticket ticket = ticket_for(t, decision.min_version, newest.version, asked);
    PACELINE_ASSIGN_OR_RETURN(const Ticks installed, t.exchange.await_parameters(ticket, t.cache));
    // Negative when they came before the grant: then nothing was waited for. Else until the last of them has
    // landed.
    exchange.parameters = (installed < granted.arrived ? installed : t.clock()) - granted.arrived;
  }
  const bool skipped = !first && decision.source == cache::ReadSource::kProcessCache &&
                       sync::broken(sync::Mutant::kRefreshSkipped);
  // What has landed is what it computes with.
  const bool stays = decision.source == cache::ReadSource::kThreadCache && !t.cache.lands();
  enter_reading(t, exchange, first, stays || skipped ? Phase::kTCacheParam : Phase::kPCacheParam);
  if (!stays && !skipped) t.cache.refresh(t.process_cache.snapshot(), grant.clock);
  settle(t);
  return t.cache.status();
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

void pull_ahead_of_push(Training& t, const wire::Grant& grant) {
  const cache::PullWithPushPlan plan = cache::pull_with_push(rules(t, grant), grant.clock, grant.threshold,
                                                             t.cache.state(), t.process_cache.state());
  t.with_push.reset();
  t.landed.reset();
  t.lands_first = plan.ahead;
  if (plan.ahead) t.with_push = {t.exchange.request_ahead(plan.min_version), plan.min_version};
}

void pull_behind_push(Training& t, const wire::Grant& grant) {
  if (t.with_push) return;
  const cache::PullWithPushPlan plan = cache::pull_with_push(rules(t, grant), grant.clock, grant.threshold,
                                                             t.cache.state(), t.process_cache.state());
  if (!plan.send) return;
  t.lands_first = plan.answered_at_once;
  t.with_push = {plan.answered_at_once ? t.exchange.request_ahead(plan.min_version)
                                       : t.exchange.request_parameters(plan.min_version),
                 plan.min_version};
}

Status land_ahead(Training& t) {
  if (!t.lands_first || !t.with_push) return Status::ok();
  PACELINE_ASSIGN_OR_RETURN(const auto installed,
                            t.exchange.await_ahead(t.worker.thread, t.with_push->ticket, t.cache));
  if (installed) t.landed = {*installed, t.clock()};
  return Status::ok();
}

}  // namespace paceline
