#include "simulate/node.h"

#include <algorithm>

#include "common/assert.h"
#include "common/trace/bound.h"
#include "simulate/virtual_time.h"

namespace paceline::simulate {

using std::chrono::nanoseconds;

namespace {

std::unique_ptr<PhaseSpans> spans_of_one_worker(const Plan& plan) {
  if (!plan.config.run.trace) return nullptr;
  return std::make_unique<PhaseSpans>(
      trace::worker_events(plan.config.run.trace_events, plan.cluster.workers()));
}

}  // namespace

Node::Thread::Thread(WorkerId worker, const Plan& plan, Ticks& phase_clock)
    : id(worker),
      taken(static_cast<std::uint32_t>(plan.shards.size())),
      own(plan.applies_at_once),
      spans(spans_of_one_worker(plan)),
      phases([&phase_clock] { return phase_clock; }, spans.get()) {}

Node::Node(NodeId id, std::uint32_t incarnation, const Surroundings& world)
    : id_(id),
      incarnation_(incarnation),
      world_(&world),
      process_(static_cast<std::uint32_t>(world.plan.shards.size())) {
  for (std::uint32_t t = 0; t < world.plan.cluster.threads_per_node; ++t) {
    threads_.emplace_back(WorkerId(id, t), world.plan, world.phase_clock);
  }
}

nanoseconds Node::per_float(double ns) const {
  return length_of(ns * static_cast<double>(world_->plan.floats));
}

void Node::enter(Thread& t, Phase phase, Ticks at) {
  world_->phase_clock = at;
  t.phases.enter(phase);
}

// From waiting to reading: ends the running exchange, or (first iteration) the first phase.
void Node::end_exchange(Thread& t, std::optional<nanoseconds> parameters, Phase next, Ticks at) {
  world_->phase_clock = at;
  if (!std::exchange(t.read_before, true)) return t.phases.enter(next);
  t.phases.end_exchange({t.grant.held, parameters, 2 * world_->plan.costs.message}, next);
}

cache::FreshnessRules Node::rules(const Thread& t) const {
  const SyncSection& sync = world_->plan.config.sync;
  return {t.grant.apply, sync.refresh_clocks, sync.pull_order != PullOrder::kBehind};
}

cache::ProcessCacheState Node::newest_known() const {
  return {std::max(known_.version, process_.version()), std::max(known_.revision, process_.revision())};
}

bool Node::is_open(Ticket ticket) const {
  return std::any_of(open_pulls_.begin(), open_pulls_.end(),
                     [&](std::uint32_t place) { return world_->pulls[place].ticket == ticket; });
}

cache::PullWithPush Node::with_push(const Thread& t) const {
  if (!t.with_push) return cache::PullWithPush::kNone;
  return is_open(*t.with_push) ? cache::PullWithPush::kPending : cache::PullWithPush::kInstalled;
}

bool Node::process_is_newer(const Thread& t) const {
  for (std::uint32_t k = 0; k < process_.shards(); ++k) {
    if (process_.slice(ShardId(k)).revision > t.taken.slice(ShardId(k)).revision) return true;
  }
  return false;
}

void Node::grant_arrives(std::uint32_t thread, Ticks now) {
  if (crashed()) return;
  Thread& t = threads_[thread];
  t.arrived = now;
  t.granted = true;
  if (!t.lands_first || t.landed) read_parameters(t, now);
}

// What was asked for with the push and did not wait for the grant is here; then the thread looks for that.
void Node::land_ahead(Thread& t, Ticks now) {
  t.landed = now;
  if (t.granted) read_parameters(t, now);
}

void Node::read_parameters(Thread& t, Ticks now) {
  t.granted = false;
  t.phases.at(t.grant.clock);
  if (!t.phases.running()) {
    world_->phase_clock = now;
    t.phases.begin(Phase::kPsParam);
  }
  ++parameter_reads_;
  known_ = {std::max(known_.version, t.grant.version), std::max(known_.revision, t.grant.revision)};
  const cache::ProcessCacheState newest = newest_known();
  const cache::ReadDecision decision = cache::decide_read(
      rules(t), {t.grant.clock, t.grant.min_version, newest.version, newest.revision, with_push(t)}, t.state,
      process_state());
  const bool waited = t.landed && *t.landed > t.arrived;  // for them, with the grant there
  if (waited || decision.source == cache::ReadSource::kServer) ++server_reads_;
  if (decision.source == cache::ReadSource::kServer) {
    const Request asked = request(decision.min_version);
    world_->pulls[asked.place].waiting.push_back(t.id.thread);
    if (asked.sent) send(asked.place, now);
    return;
  }
  const auto parameters = waited ? std::optional(*t.landed - t.arrived) : std::nullopt;
  // What has landed is what it computes with.
  const bool stays = decision.source == cache::ReadSource::kThreadCache && !t.lands;
  stays ? go_on_with_thread_cache(t, parameters, now) : take_process_cache(t, parameters, t.lands, now);
}

void Node::go_on_with_thread_cache(Thread& t, std::optional<nanoseconds> parameters, Ticks now) {
  end_exchange(t, parameters, Phase::kTCacheParam, now);
  settle(t, now);
}

// `landed`: they were copied to their place, own updates added, as they came.
void Node::take_process_cache(Thread& t, std::optional<nanoseconds> parameters, bool landed, Ticks now) {
  end_exchange(t, parameters, Phase::kPCacheParam, now);
  settle(t, now + refresh(t, landed));
}

// What was left until now of applying own gradients; then the mini-batch.
void Node::settle(Thread& t, Ticks at) {
  if (world_->training != nullptr) world_->training->settle(rank_of(t));
  const std::optional<std::int64_t> floats = t.own.settle(world_->plan.shards);
  if (!floats) return load_batch(t, at);
  enter(t, Phase::kApplyGrads, at);
  load_batch(t, at + length_of(static_cast<double>(*floats) * world_->plan.costs.local_apply_ns_per_float));
}

// Takes over the slices that are newer, adds own differences again; returns what that takes.
nanoseconds Node::refresh(Thread& t, bool landed) {
  double floats = 0.0;
  for (std::uint32_t k = 0; k < process_.shards(); ++k) {
    const ShardId shard(k);
    const Revision had = t.taken.slice(shard).revision;
    if (!t.taken.install(shard, process_.slice(shard)) || t.taken.slice(shard).revision == had) continue;
    const std::size_t passes = t.own.take_over(shard, t.taken.applied(shard, t.id.thread));
    if (landed) continue;
    floats += static_cast<double>(passes) * static_cast<double>(world_->plan.shards[k].floats);
  }
  t.own.refreshed(t.taken, t.id.thread);
  if (world_->training != nullptr) world_->training->refresh(rank_of(t), t.grant.clock, t.taken);
  t.state = {t.taken.version(), t.taken.revision(), t.grant.clock};
  return length_of(floats * world_->plan.costs.copy_ns_per_float);
}

void Node::load_batch(Thread& t, Ticks at) {
  enter(t, Phase::kBatch, at);
  world_->events.at(at + world_->plan.costs.batch, {EventKind::kComputeBegins, number_of(t), 0});
}

void Node::compute_begins(std::uint32_t thread, Ticks now) {
  if (crashed()) return;
  Thread& t = threads_[thread];
  enter(t, Phase::kComputeGrads, now);
  const cache::PullPlan plan =
      cache::prefetch(t.grant.clock, t.grant.threshold, newest_known().version, t.state, process_state());
  t.ahead = {};
  if (plan.send) {
    const Request asked = request(plan.min_version);
    t.ahead = {asked.ticket, now, std::nullopt};
    if (asked.sent) send(asked.place, now);
  }
  t.step = {rank_of(t),
            t.grant.clock,
            t.arrived,
            now,
            t.state.version,
            t.state.revision,
            {t.grant.position, t.grant.samples},
            t.grant.iteration,
            t.grant.threshold,
            t.grant.min_version};
  const Ticks ends = world_->computation.ends(t.step);
  if (world_->computation.overran()) ++overruns_;
  t.own_updates = t.own.kept();
  world_->events.at(ends, {EventKind::kComputeEnds, number_of(t), 0});
}

void Node::compute_ends(std::uint32_t thread, Ticks now) {
  if (crashed()) return;
  ++steps_;
  Thread& t = threads_[thread];
  t.computed = world_->computation.compute(t.step);
  if (t.ahead.ticket) {
    t.phases.add_hidden(Phase::kPsParam, t.ahead.until.value_or(now) - t.ahead.since);
  }
  const cache::PullWithPushPlan plan =
      cache::pull_with_push(rules(t), t.grant.clock, t.grant.threshold, t.state, process_state());
  t.with_push.reset();
  t.landed.reset();
  t.lands = false;
  t.lands_first = plan.ahead;
  t.pushed = false;
  if (plan.ahead) {
    const Request asked = request(plan.min_version);
    t.with_push = asked.ticket;
    if (asked.sent) send(asked.place, now);
  }
  if (!world_->plan.keeps_own_updates || !t.computed.fault.empty()) return push_leaves(thread, now);
  t.own.computed(t.grant.clock, process_.shards());
  if (world_->training != nullptr) world_->training->apply_locally(rank_of(t), t.grant);
  if (!world_->plan.applies_at_once) return push_leaves(thread, now);
  enter(t, Phase::kApplyGrads, now);
  const Ticks applied = now + per_float(world_->plan.costs.local_apply_ns_per_float);
  world_->events.at(applied, {EventKind::kPushLeaves, number_of(t), 0});
}

void Node::push_leaves(std::uint32_t thread, Ticks now) {
  if (crashed()) return;
  Thread& t = threads_[thread];
  enter(t, Phase::kPsApplyGrads, now);
  t.pushed = true;
  t.pull_behind.reset();
  if (t.lands_first) {
    if (!is_open(*t.with_push)) t.landed = now;  // it has come already, and lands with the read
  } else {
    const cache::PullWithPushPlan plan =
        cache::pull_with_push(rules(t), t.grant.clock, t.grant.threshold, t.state, process_state());
    if (plan.send) {
      const Request asked = request(plan.min_version);
      t.lands_first = plan.answered_at_once;
      t.with_push = asked.ticket;
      if (asked.sent) t.pull_behind = asked.place;
    }
  }
  if (!t.computed.fault.empty()) return report_alone(t, std::exchange(t.pull_behind, std::nullopt), now);
  if (world_->training != nullptr) world_->training->send(rank_of(t));
  const std::uint32_t number = number_of(t);
  const Ticks leaves = now + world_->plan.costs.message;
  t.push_left = leaves;
  for (std::uint32_t k = 0; k < world_->plan.shards.size(); ++k) {
    const Ticks left = world_->network.to_server(id_, ShardId(k), world_->plan.shards[k].gradient.bytes,
                                                 {EventKind::kPushArrives, k, number}, leaves);
    t.push_left = std::max(t.push_left, left);
  }
}

// A gradient that is not finite does not leave; the clock closes without it. The pull follows at once.
void Node::report_alone(Thread& t, std::optional<std::uint32_t> pull, Ticks now) {
  t.push_left = now + world_->plan.costs.message;
  world_->network.message({EventKind::kReportArrives, number_of(t), 0}, t.push_left);
  if (pull) send(*pull, now);
}

Node::Request Node::request(Version min_version) {
  const Version newest = newest_known().version;
  for (const std::uint32_t place : open_pulls_) {
    const Pull& pull = world_->pulls[place];
    if (cache::serves(pull.min_version, min_version, newest)) return {pull.ticket, place, false};
  }
  const std::uint32_t place = world_->pulls.begin(id_, incarnation_, min_version);
  Pull& pull = world_->pulls[place];
  for (std::uint32_t k = 0; k < process_.shards(); ++k) pull.have[k] = process_.slice(ShardId(k)).revision;
  open_pulls_.push_back(place);
  return {pull.ticket, place, true};
}

void Node::send(std::uint32_t pull, Ticks now) {
  for (std::uint32_t k = 0; k < process_.shards(); ++k) {
    world_->network.message({EventKind::kPullArrives, k, pull}, now + world_->plan.costs.message);
  }
}

void Node::answer_arrives(std::uint32_t place, ShardId shard, Ticks now) {
  if (!crashed()) {
    process_.install(shard, world_->pulls[place].answers[shard.value]);
    if (world_->training != nullptr) world_->training->install(id_, place, shard);
  } else if (world_->training != nullptr) {
    world_->training->drop(place, shard);  // another incarnation of it may be there
  }
  answered(place, now);
}

// The same parameters, by now of a newer version: only where they are what is here (process_cache.h).
void Node::unchanged(std::uint32_t place, ShardId shard, Ticks now) {
  const cache::SliceStamp& stamp = world_->pulls[place].answers[shard.value];
  if (!crashed()) {
    if (process_.slice(shard).revision == stamp.revision) process_.install(shard, stamp);
    if (world_->training != nullptr) world_->training->confirmed(id_, shard, stamp);
  }
  answered(place, now);
}

void Node::answered(std::uint32_t place, Ticks now) {
  Pull& pull = world_->pulls[place];
  if (--pull.shards_open > 0) return;
  open_pulls_.erase(std::find(open_pulls_.begin(), open_pulls_.end(), place));
  const Ticket ticket = pull.ticket;
  const std::vector<std::uint32_t> waiting = std::exchange(pull.waiting, {});
  world_->pulls.end(place);
  if (crashed()) return;
  for (Thread& t : threads_) {
    if (t.ahead.ticket == ticket) t.ahead.until = now;
  }
  for (const std::uint32_t thread : waiting) {
    Thread& t = threads_[thread];
    take_process_cache(t, now - t.arrived, true, now);
  }
  // Whoever has pushed and waits for it; one that still computes or applies finds it installed.
  for (Thread& t : threads_) {
    if (!t.lands_first || t.landed || t.with_push != ticket || !t.pushed) continue;
    t.lands = process_is_newer(t);
    land_ahead(t, now);
  }
}

// The thread does not wait for what it asked for with its last push: nobody will compute with it.
void Node::finish_arrives(std::uint32_t thread, Ticks now) {
  if (crashed()) return;
  Thread& t = threads_[thread];
  PACELINE_ASSERT(!t.granted, "worker " + to_string(t.id) + " has a grant, and nothing is to follow");
  t.lands_first = false;
  t.finished = true;
  if (!t.phases.running()) return;  // it never had a grant
  world_->phase_clock = now;
  t.phases.at(t.grant.clock.next());
  t.phases.end({t.finish_held, std::nullopt, 2 * world_->plan.costs.message});
}

bool Node::reported() const {
  return std::all_of(threads_.begin(), threads_.end(), [](const Thread& t) { return t.finished; });
}

void Node::add_phases(std::vector<WorkerPhases>& phases) const {
  for (const Thread& t : threads_) phases.push_back({t.id, t.phases.totals()});
}

void Node::add_spans(trace::Trace& to) const {
  for (const Thread& t : threads_) {
    if (t.spans) to.workers.push_back({t.id, t.spans->in_order(), t.spans->left_out()});
  }
}

}  // namespace paceline::simulate
