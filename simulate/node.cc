#include "simulate/node.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>
#include <variant>

#include "common/assert.h"
#include "common/config/planned.h"
#include "common/trace/bound.h"
#include "simulate/virtual_time.h"

namespace paceline::simulate {

using std::chrono::nanoseconds;

namespace {

// Two may be under way; what is complete is asked for no more.
constexpr std::size_t kSentKept = 3;

std::uint32_t stamp_of(Clock clock) { return static_cast<std::uint32_t>(clock.value); }

std::unique_ptr<PhaseSpans> spans_of_one_worker(const Plan& plan) {
  if (!plan.config.run.trace) return nullptr;
  return std::make_unique<PhaseSpans>(
      trace::worker_events(plan.config.run.trace_events, plan.cluster.workers()));
}

step::StepRules step_rules(const Plan& plan) {
  const SyncSection& sync = plan.config.sync;
  return {sync.refresh_clocks,          sync.pull_order != PullOrder::kBehind,
          plan.keeps_own_updates,       plan.config.train.mini_batch_of_local_steps(),
          plan.config.exchange.hidden,  plan.config.exchange.fragments,
          last_rounds_from(plan.config)};
}

}  // namespace

Node::Thread::Thread(WorkerId worker, const Plan& plan, Ticks& phase_clock)
    : id(worker),
      step(step_rules(plan)),
      taken(static_cast<std::uint32_t>(plan.slices.size())),
      own(plan.applies_at_once),
      spans(spans_of_one_worker(plan)),
      phases([&phase_clock] { return phase_clock; }, spans.get()) {}

Node::Node(NodeId id, std::uint32_t incarnation, const Surroundings& world)
    : id_(id),
      incarnation_(incarnation),
      world_(&world),
      process_(static_cast<std::uint32_t>(world.plan.slices.size())) {
  for (std::uint32_t t = 0; t < world.plan.cluster.threads_per_node; ++t) {
    threads_.emplace_back(WorkerId(id, t), world.plan, world.phase_clock);
  }
}

nanoseconds Node::per_float(double ns) const {
  std::int64_t floats = 0;
  for (const ShardSizes& shard : shards()) floats += shard.floats;
  return length_of(ns * static_cast<double>(floats));
}

void Node::enter(Thread& t, Phase phase, Ticks at) {
  world_->phase_clock = at;
  t.phases.enter(phase);
}

cache::ProcessCacheState Node::newest_known() const {
  return {std::max(known_.version, process_.version()), std::max(known_.revision, process_.revision())};
}

bool Node::is_open(Ticket ticket) const {
  return std::any_of(open_pulls_.begin(), open_pulls_.end(),
                     [&](std::uint32_t place) { return world_->pulls[place].ticket == ticket; });
}

// Of what a grant names, when the thread looks at it.
void Node::note_existence(const sync::Grant& grant) {
  known_ = {std::max(known_.version, grant.version), std::max(known_.revision, grant.revision)};
}

step::View Node::look(const Thread& t) const {
  const bool installed =
      std::ssize(t.pulled) == fragments() &&
      std::none_of(t.pulled.begin(), t.pulled.end(), [this](Ticket ticket) { return is_open(ticket); });
  return {installed, newest_known(), t.state, process_state()};
}

bool Node::process_is_newer(const Thread& t) const {
  for (std::uint32_t k = 0; k < process_.shards(); ++k) {
    if (process_.slice(ShardId(k)).revision > t.taken.slice(ShardId(k)).revision) return true;
  }
  return false;
}

void Node::tell(Thread& t, const step::Event& event, Ticks now) {
  std::vector<step::Action> actions;
  const Status told = t.step.step(event, actions);
  PACELINE_ASSERT(told.is_ok(), told.message());
  for (const step::Action& action : actions) {
    std::visit([&](const auto& a) { carry_out(t, a, now); }, action);
  }
}

void Node::grant_arrives(std::uint32_t thread, Ticks now) {
  if (crashed()) return;
  Thread& t = threads_[thread];
  ++t.arrived;
  if (t.awaits) begin(t, now);
}

void Node::carry_out(Thread& t, const step::AwaitInstruction&, Ticks now) {
  t.awaits = true;
  if (t.arrived > 0) begin(t, now);
}

// With the oldest grant that has come.
void Node::begin(Thread& t, Ticks now) {
  t.awaits = false;
  --t.arrived;
  t.grant = t.expected.front();
  t.expected.pop_front();
  if (!t.installs_early) note_existence(t.grant);
  if (!t.phases.running()) {
    t.phases.at(t.grant.clock);
    world_->phase_clock = now;
    t.phases.begin(Phase::kPsParam);
  }
  tell(t, step::Granted{step::grant_of(t.grant), now, look(t)}, now);
}

// What was pulled with the push serves, if it is said to, and so may an older pull that is open: it joins the
// first of them. Here none of them is answered meanwhile.
void Node::carry_out(Thread& t, const step::AwaitParameters& action, Ticks now) {
  for (std::int64_t n = 0; n < fragments(); ++n) {
    const bool pulled = action.pulled_with_push && n < std::ssize(t.pulled);
    if (pulled && !is_open(t.pulled[static_cast<std::size_t>(n)])) continue;  // it is here
    const Request asked = request(action.min_version, n);
    ++t.waits_for;
    world_->pulls[asked.place].waiting.push_back(t.id.thread);
    if (asked.sent) send(asked.place, now);
  }
}

// Ends the running exchange or, the first time, the first phase.
void Node::carry_out(Thread& t, const step::MakeCurrent& action, Ticks now) {
  const Phase phase = action.refresh ? Phase::kPCacheParam : Phase::kTCacheParam;
  t.phases.at(t.grant.clock);
  world_->phase_clock = now;
  if (action.first) {
    t.phases.enter(phase);
  } else {
    t.phases.end_exchange({t.grant.held, action.parameters, 2 * world_->plan.costs.message}, phase);
  }
  const Ticks current = settle(t, action.refresh ? now + refresh(t) : now);
  tell(t, step::ParametersCurrent{}, current);
}

Ticks Node::settle(Thread& t, Ticks at) {
  if (world_->training != nullptr) world_->training->settle(rank_of(t));
  const std::optional<std::int64_t> floats =
      world_->plan.of_stage.empty() ? t.own.settle(world_->plan.slices) : t.own.settle(shards());
  if (!floats) return at;
  enter(t, Phase::kApplyGrads, at);
  return at + length_of(static_cast<double>(*floats) * world_->plan.costs.local_apply_ns_per_float);
}

// Takes over the slices that are newer, adds own differences again; returns what that takes.
nanoseconds Node::refresh(Thread& t) {
  double floats = 0.0;
  for (std::uint32_t k = 0; k < process_.shards(); ++k) {
    const ShardId shard(k);
    const Revision had = t.taken.slice(shard).revision;
    if (!t.taken.install(shard, process_.slice(shard)) || t.taken.slice(shard).revision == had) continue;
    const std::size_t passes = t.own.take_over(shard, t.taken.applied(shard, t.id.thread));
    if (t.landed) continue;
    floats += static_cast<double>(passes) * static_cast<double>(floats_of(k));
  }
  t.own.refreshed(t.taken, t.id.thread);
  if (world_->training != nullptr) world_->training->refresh(rank_of(t), t.grant.clock, t.taken);
  t.state = {t.taken.version(), t.taken.revision(), t.grant.clock};
  return length_of(floats * world_->plan.costs.copy_ns_per_float);
}

void Node::carry_out(Thread& t, const step::LoadBatch& action, Ticks now) {
  t.step_began = now;
  if (action.local_step == 0) {
    t.fragments_sent = 0;
    t.ahead = {};
    t.computed = {};
    t.round_began = now;
  }
  t.computation.started = action.local_step == 0 ? t.step.granted_at() : now;
  enter(t, Phase::kBatch, now);
  world_->events.at(now + world_->plan.costs.batch, {EventKind::kComputeBegins, number_of(t), 0});
}

void Node::compute_begins(std::uint32_t thread, Ticks now) {
  if (crashed()) return;
  Thread& t = threads_[thread];
  enter(t, Phase::kComputeGrads, now);
  tell(t, step::BatchLoaded{look(t)}, now);
}

void Node::carry_out(Thread& t, const step::Compute& action, Ticks now) {
  const TrainSection& train = world_->plan.config.train;
  const BatchPart round{t.grant.position, t.grant.samples};
  const std::int64_t mini_batch = train.mini_batch_of_local_steps();
  const std::int64_t steps = step::local_steps_of(round, mini_batch);
  const auto place = [&](std::int64_t begin) {
    return step::local_place(begin * train.local_steps, train.local_steps, action.local_step, steps);
  };
  t.computation = {rank_of(t),
                   t.grant.clock,
                   t.computation.started,
                   now,
                   t.state.version,
                   t.state.revision,
                   step::local_batch(round, mini_batch, action.local_step),
                   place(t.grant.iteration),
                   t.grant.threshold,
                   t.grant.min_version,
                   action.local_step,
                   steps,
                   Clock(place(t.grant.clock.value))};
  const Ticks ends = world_->computation.ends(t.computation);
  if (world_->computation.overran()) ++overruns_;
  t.own_updates = t.own.kept();
  if (world_->groups == nullptr) {
    world_->events.at(ends, {EventKind::kComputeEnds, number_of(t), 0});
    return;
  }
  const auto done = world_->groups->begin_step(id_, t.grant.clock, now, ends - now);
  for (std::uint32_t s = 0; done && s < done->ends.size(); ++s) {
    world_->events.at(done->ends[s], {EventKind::kComputeEnds, done->first.value + s, 0});
  }
}

void Node::compute_ends(std::uint32_t thread, Ticks now) {
  if (crashed()) return;
  ++steps_;
  Thread& t = threads_[thread];
  if (world_->groups != nullptr) {
    world_->phase_clock = now;
    t.phases.shift_start(world_->groups->waited(id_), Phase::kBarrier);
  }
  const bool late =
      step::time_is_up(world_->plan.config.train.local_time, now - t.round_began, now - t.step_began);
  if (late) t.computation.local_steps = t.computation.local_step + 1;
  const Computation::Computed computed = world_->computation.compute(t.computation);
  t.computed.metric += computed.metric;
  t.computed.fault = computed.fault;
  const bool finite = std::isfinite(computed.metric.loss_sum);
  if (!finite || t.computation.local_step + 1 == t.computation.local_steps) {
    if (t.ahead.ticket) {
      t.phases.add_hidden(Phase::kPsParam, t.ahead.until.value_or(now) - t.ahead.since);
    }
    t.pulled.clear();
    t.landed = false;
  }
  tell(t, step::GradientComputed{look(t), finite, late}, now);
}

void Node::carry_out(Thread& t, const step::SendFragment& action, Ticks now) {
  if (world_->training != nullptr) world_->training->cut(rank_of(t), action.n);
  t.fragments_sent = action.n + 1;
  for (std::uint32_t k = 0; k < shards().size(); ++k) {
    const std::int64_t bytes = shards()[k].early[static_cast<std::size_t>(action.n)];
    if (bytes == 0) continue;
    world_->network.to_server(id_, ShardId(k), bytes, {EventKind::kPartArrives, k, number_of(t)},
                              now + world_->plan.costs.message);
  }
}

void Node::carry_out(Thread& t, const step::CheckGradient&, Ticks now) {
  tell(t, step::GradientChecked{t.computed.fault.empty()}, now);
}

void Node::carry_out(Thread& t, const step::ApplyLocally&, Ticks now) {
  t.own.computed(t.grant.clock, process_.shards());
  if (world_->training != nullptr) world_->training->apply_locally(rank_of(t), t.grant);
  if (!world_->plan.applies_at_once) return tell(t, step::AppliedLocally{}, now);
  enter(t, Phase::kApplyGrads, now);
  const Ticks applied = now + per_float(world_->plan.costs.local_apply_ns_per_float);
  world_->events.at(applied, {EventKind::kPushLeaves, number_of(t), 0});
}

void Node::push_leaves(std::uint32_t thread, Ticks now) {
  if (!crashed()) tell(threads_[thread], step::AppliedLocally{}, now);
}

void Node::carry_out(Thread& t, const step::Contribute&, Ticks now) {
  if (world_->reductions != nullptr) {
    // Of a group, as if it waited ahead of all that it computes.
    const nanoseconds waited = world_->groups == nullptr ? nanoseconds(0) : world_->groups->waited(id_);
    const auto there = world_->reductions->contribute(id_, t.computation.begins + waited, now);
    if (!there) return;
    const std::uint32_t threads = world_->plan.cluster.threads_per_node;
    for (std::uint32_t worker = 0; worker < world_->plan.cluster.workers(); ++worker) {
      world_->events.at(std::max(now, (*there)[worker / threads]), {EventKind::kReduced, worker, 0});
    }
    return;
  }
  if (world_->training != nullptr) world_->training->send(rank_of(t));
  const std::uint32_t number = number_of(t);
  const Ticks leaves = now + world_->plan.costs.message;
  t.push_left = leaves;
  for (std::uint32_t k = 0; k < shards().size(); ++k) {
    const std::vector<std::int64_t>& early = shards()[k].early;
    const std::int64_t bytes = std::accumulate(early.begin(), early.begin() + t.fragments_sent,
                                               shards()[k].gradient.bytes, std::minus<>());
    const Ticks left = world_->network.to_server(
        id_, ShardId(k), bytes, {EventKind::kPushArrives, k, number, stamp_of(t.grant.clock)}, leaves);
    t.push_left = std::max(t.push_left, left);
  }
}

// It arrives with the gradient, or alone.
void Node::carry_out(Thread& t, const step::Report& action, Ticks now) {
  enter(t, Phase::kPsApplyGrads, now);
  if (action.skipped) t.push_left = now + world_->plan.costs.message;
  t.sent.push_back({t.grant.clock, t.computed.metric, t.computed.fault, t.state.version, t.state.revision,
                    t.own_updates, t.push_left, std::nullopt});
  if (t.sent.size() > kSentKept) t.sent.pop_front();
  if (world_->reductions != nullptr) return;  // once the sum is there
  if (action.skipped) {
    world_->network.message({EventKind::kReportArrives, number_of(t), 0, stamp_of(t.grant.clock)},
                            t.push_left);
  }
  tell(t, step::Sent{look(t)}, now);
}

void Node::carry_out(Thread& t, const step::Pull& action, Ticks now) {
  const Request asked = request(action.min_version, action.fragment);
  switch (action.when) {
    case step::PullWhen::kPrefetch:
      t.ahead = {asked.ticket, now, std::nullopt};
      break;
    case step::PullWhen::kBeforePush:
      t.pulled = {asked.ticket};
      break;
    case step::PullWhen::kAfterPush:
      if (action.fragment == 0) t.pulled.clear();
      t.pulled.push_back(asked.ticket);
      if (asked.sent && action.fragment == 0 && t.computed.fault.empty()) {
        t.sent.back().pull_behind = asked.place;
        t.sent.back().pull_ticket = asked.ticket;
        return;
      }
      break;
  }
  if (asked.sent) send(asked.place, now);
}

// What came while it computed, or applied locally, it takes over when it reads.
void Node::carry_out(Thread& t, const step::InstallEarly&, Ticks now) {
  if (is_open(t.pulled.front())) {
    t.installs_early = true;
  } else {
    tell(t, step::InstalledEarly{now, now, false, look(t)}, now);
  }
}

void Node::reduced(std::uint32_t thread, Ticks now) {
  Thread& t = threads_[thread];
  reduced_ = std::max(reduced_, Version(t.grant.clock.value + 1));
  process_.install(ShardId(0), reduced_stamp());
  t.sent.back().left = now + world_->plan.costs.message;
  world_->network.message({EventKind::kReportArrives, number_of(t), 0, stamp_of(t.grant.clock)},
                          t.sent.back().left);
  tell(t, step::Sent{look(t)}, now);
}

const Node::Sent& Node::sent(std::uint32_t thread, std::uint32_t stamp) const {
  const std::deque<Sent>& all = threads_[thread].sent;
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Sent& each) { return stamp_of(each.clock) == stamp; });
  PACELINE_ASSERT(found != all.end(), "worker " + to_string(threads_[thread].id) +
                                          " has sent nothing stamped " + std::to_string(stamp) +
                                          ", or long ago");
  return *found;
}

// All workers' gradients are in every version.
cache::SliceStamp Node::reduced_stamp() const {
  const Cluster& cluster = world_->plan.cluster;
  return {reduced_, Revision(reduced_.value * cluster.workers()),
          std::vector<Clock>(cluster.threads_per_node, Clock(reduced_.value))};
}

void Node::parameters_here(std::uint32_t pull, Ticks now) {
  process_.install(ShardId(0), reduced_stamp());
  answered(pull, now);
}

std::int64_t Node::floats_of(std::uint32_t slice) const {
  return world_->plan.of_stage.empty() ? world_->plan.slices[slice].floats : shards()[slice].floats;
}

Node::Request Node::request(Version min_version, std::int64_t fragment) {
  const Version newest = newest_known().version;
  for (const std::uint32_t place : open_pulls_) {
    const Pull& pull = world_->pulls[place];
    if (pull.fragment != fragment || !cache::serves(pull.min_version, min_version, newest)) continue;
    return {pull.ticket, place, false};
  }
  const Plan& plan = world_->plan;
  const auto of_it =
      std::count_if(plan.slices.begin(), plan.slices.end(),
                    [fragment](const SliceSizes& slice) { return slice.fragment == fragment; });
  const std::uint32_t place =
      world_->pulls.begin(id_, incarnation_, min_version, fragment, static_cast<std::uint32_t>(of_it));
  Pull& pull = world_->pulls[place];
  for (std::uint32_t k = 0; k < plan.shards.size(); ++k) {
    if (const auto slice = plan.slice_of(ShardId(k), fragment))
      pull.have[k] = process_.slice(ShardId(*slice)).revision;
  }
  open_pulls_.push_back(place);
  return {pull.ticket, place, true};
}

void Node::send(std::uint32_t pull, Ticks now) {
  if (world_->reductions != nullptr) {
    world_->events.at(now, {EventKind::kParametersHere, pull, 0});
    return;
  }
  for (std::uint32_t k = 0; k < world_->plan.shards.size(); ++k) {
    if (!world_->plan.slice_of(ShardId(k), world_->pulls[pull].fragment)) continue;
    world_->network.message({EventKind::kPullArrives, k, pull}, now + world_->plan.costs.message);
  }
}

void Node::answer_arrives(std::uint32_t place, ShardId shard, Ticks now) {
  if (!crashed()) {
    const ShardId slice(*world_->plan.slice_of(shard, world_->pulls[place].fragment));
    process_.install(slice, world_->pulls[place].answers[shard.value]);
    if (world_->training != nullptr) world_->training->install(id_, place, shard, slice);
  } else if (world_->training != nullptr) {
    world_->training->drop(place, shard);  // another incarnation of it may be there
  }
  answered(place, now);
}

// The same parameters, by now of a newer version: only where they are what is here (process_cache.h).
void Node::unchanged(std::uint32_t place, ShardId shard, Ticks now) {
  const cache::SliceStamp& stamp = world_->pulls[place].answers[shard.value];
  if (!crashed()) {
    const ShardId slice(*world_->plan.slice_of(shard, world_->pulls[place].fragment));
    if (process_.slice(slice).revision == stamp.revision) process_.install(slice, stamp);
    if (world_->training != nullptr) world_->training->confirmed(id_, slice, stamp);
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
    if (--t.waits_for > 0) continue;
    t.landed = fragments() == 1;  // else it is taken over once the last is there
    tell(t, step::Arrived{now, now}, now);
  }
  for (Thread& t : threads_) {
    if (!t.installs_early || t.pulled.front() != ticket) continue;
    t.installs_early = false;
    t.landed = process_is_newer(t);
    if (t.step.grant_waits()) note_existence(t.grant);
    tell(t, step::InstalledEarly{now, now, t.landed, look(t)}, now);
  }
}

// The thread does not wait for what it asked for with its last push: nobody will compute with it.
void Node::finish_arrives(std::uint32_t thread, Ticks now) {
  if (crashed()) return;
  Thread& t = threads_[thread];
  t.installs_early = false;
  t.finished = true;
  tell(t, step::Finished{}, now);
  if (!t.phases.running()) return;  // it never had a grant
  world_->phase_clock = now;
  t.phases.at(t.grant.clock.next());
  t.phases.end({t.finish_held, std::nullopt, 2 * world_->plan.costs.message});
}

bool Node::reported() const {
  return std::all_of(threads_.begin(), threads_.end(), [](const Thread& t) { return t.finished; });
}

std::int64_t Node::parameter_reads() const {
  return std::accumulate(threads_.begin(), threads_.end(), std::int64_t{0},
                         [](std::int64_t sum, const Thread& t) { return sum + t.step.reads(); });
}

std::int64_t Node::server_reads() const {
  return std::accumulate(threads_.begin(), threads_.end(), std::int64_t{0},
                         [](std::int64_t sum, const Thread& t) { return sum + t.step.server_reads(); });
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
