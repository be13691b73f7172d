#include "simulate/worker.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <variant>

#include "common/assert.h"
#include "common/config/planned.h"
#include "common/trace/bound.h"
#include "simulate/virtual_time.h"

namespace paceline::simulate {
namespace {

std::unique_ptr<PhaseSpans> spans_of_one_worker(const Plan& plan) {
  if (!plan.config.run.trace) return nullptr;
  const std::size_t most = trace::worker_events(plan.config.run.trace_events, plan.cluster.workers());
  return std::make_unique<PhaseSpans>(plan.config.pipeline.enabled() ? most / 2 : most);
}

step::StepRules step_rules(const Plan& plan) {
  const SyncSection& sync = plan.config.sync;
  return {sync.refresh_clocks,          sync.pull_order != PullOrder::kAfterPush,
          plan.keeps_own_updates,       plan.config.train.mini_batch_of_local_steps(),
          plan.config.exchange.hidden,  plan.config.exchange.fragments,
          last_rounds_from(plan.config)};
}

}  // namespace

Worker::Worker(WorkerId id, std::uint32_t number, NodeCache& node, const Surroundings& world)
    : id_(id),
      number_(number),
      world_(world),
      node_(node),
      step_(step_rules(world.plan)),
      cache_(static_cast<std::uint32_t>(world.plan.slices.size()), world.plan.applies_at_once),
      round_(world.plan.config.train),
      spans_(spans_of_one_worker(world.plan)),
      phases_([&clock = world.phase_clock] { return clock; }, spans_.get()) {}

PhaseRecorder& Worker::phases_at(Ticks at) {
  world_.phase_clock = at;
  return phases_;
}

step::View Worker::view() const {
  const bool installed =
      std::ssize(pulled_) == fragments() &&
      std::none_of(pulled_.begin(), pulled_.end(), [this](Ticket ticket) { return node_.is_open(ticket); });
  return {installed, node_.newest_known(), cache_.state(), node_.state()};
}

void Worker::advance(const step::Event& event, Ticks now) {
  std::vector<step::Action> actions;
  const Status stepped = step_.step(event, actions);
  PACELINE_ASSERT(stepped.is_ok(), stepped.message());
  for (const step::Action& action : actions) {
    std::visit([&](const auto& a) { carry_out(a, now); }, action);
  }
}

void Worker::grant_arrives(Ticks now) {
  instructions_.grant_came();
  if (awaits_) begin(now);
}

void Worker::carry_out(const step::AwaitInstruction&, Ticks now) {
  awaits_ = true;
  if (instructions_.has_grant()) begin(now);
}

// With the oldest grant that has come.
void Worker::begin(Ticks now) {
  awaits_ = false;
  grant_ = instructions_.take();
  if (!installs_early_) node_.note(grant_);
  if (!phases_.running()) {
    phases_.at(grant_.clock);
    phases_at(now).begin(Phase::kPsParam);
  }
  advance(step::Granted{step::grant_of(grant_), now, view()}, now);
}

// What was pulled with the push serves, if it is said to, and so may an older pull that is open: it joins the
// first of them. Here none of them is answered meanwhile.
void Worker::carry_out(const step::AwaitParameters& action, Ticks now) {
  for (std::int64_t n = 0; n < fragments(); ++n) {
    const bool pulled = action.pulled_with_push && n < std::ssize(pulled_);
    if (pulled && !node_.is_open(pulled_[static_cast<std::size_t>(n)])) continue;  // it is here
    const NodeCache::Request asked = node_.ask(action.min_version, n);
    ++waits_for_;
    world_.pulls[asked.place].waiting.push_back(id_.thread);
    if (asked.must_be_sent) node_.send(asked.place, now);
  }
}

void Worker::arrived(Ticks now) {
  if (--waits_for_ > 0) return;
  cache_.set_copied_in(fragments() == 1);  // else it is taken over once the last is there
  advance(step::Arrived{now, now}, now);
}

// Ends the running exchange or, the first time, the first phase.
void Worker::carry_out(const step::MakeCurrent& action, Ticks now) {
  const Phase phase = action.refresh ? Phase::kPCacheParam : Phase::kTCacheParam;
  phases_.at(grant_.clock);
  if (action.first) {
    phases_at(now).enter(phase);
  } else {
    phases_at(now).end_exchange({grant_.held, action.parameters, 2 * world_.plan.costs.message}, phase);
  }
  Ticks read = now;
  if (action.refresh) {
    const bool has_stages = !world_.plan.of_stage.empty();
    const double floats = cache_.refresh(node_.stamps(), id_.thread, grant_.clock, [&](std::uint32_t slice) {
      return has_stages ? shards()[slice].floats : world_.plan.slices[slice].floats;
    });
    if (world_.training != nullptr) world_.training->refresh(rank(), grant_.clock, cache_.taken());
    read = now + length_of(floats * world_.plan.costs.copy_ns_per_float);
  }
  const Ticks current = apply_deferred(read);
  advance(step::ParametersCurrent{}, current);
}

Ticks Worker::apply_deferred(Ticks at) {
  if (world_.training != nullptr) world_.training->apply_deferred(rank());
  const std::optional<std::int64_t> floats = world_.plan.of_stage.empty()
                                                 ? cache_.own().apply_deferred(world_.plan.slices)
                                                 : cache_.own().apply_deferred(shards());
  if (!floats) return at;
  phases_at(at).enter(Phase::kApplyGrads);
  return at + length_of(static_cast<double>(*floats) * world_.plan.costs.local_apply_ns_per_float);
}

void Worker::carry_out(const step::LoadBatch& action, Ticks now) {
  if (action.local_step == 0) {
    fragments_sent_ = 0;
    ahead_ = {};
  }
  round_.begin_step(action.local_step, step_.granted_at(), now);
  phases_at(now).enter(Phase::kBatch);
  world_.events.at(now + world_.plan.costs.batch, {EventKind::kComputeBegins, number_, 0});
}

void Worker::compute_begins(Ticks now) {
  phases_at(now).enter(Phase::kComputeGrads);
  advance(step::BatchLoaded{view()}, now);
}

void Worker::carry_out(const step::Compute& action, Ticks now) {
  const Ticks ends =
      world_.computation.ends(round_.compute(grant_, rank(), cache_.state(), action.local_step, now));
  if (world_.computation.overran()) ++overruns_;
  own_updates_ = cache_.own().kept();
  if (world_.groups == nullptr) {
    world_.events.at(ends, {EventKind::kComputeEnds, number_, 0});
    return;
  }
  const auto done = world_.groups->begin_step(id_.node, grant_.clock, now, ends - now);
  for (std::uint32_t s = 0; done && s < done->ends.size(); ++s) {
    world_.events.at(done->ends[s], {EventKind::kComputeEnds, done->first.value + s, 0});
  }
}

void Worker::compute_ends(Ticks now) {
  if (world_.groups != nullptr) {
    phases_at(now).shift_start(world_.groups->waited(id_.node), Phase::kBarrier);
  }
  const Round::Ended ended = round_.end_step(world_.computation, now);
  if (ended.last) {
    if (ahead_.ticket) phases_.add_hidden(Phase::kPsParam, ahead_.until.value_or(now) - ahead_.since);
    pulled_.clear();
    cache_.set_copied_in(false);
  }
  advance(step::GradientComputed{view(), ended.finite, ended.late}, now);
}

void Worker::carry_out(const step::SendFragment& action, Ticks now) {
  if (world_.training != nullptr) world_.training->cut(rank(), action.n);
  fragments_sent_ = action.n + 1;
  for (std::uint32_t k = 0; k < shards().size(); ++k) {
    const std::int64_t bytes = shards()[k].early[static_cast<std::size_t>(action.n)];
    if (bytes == 0) continue;
    world_.network.to_server(id_.node, ShardId(k), bytes, {EventKind::kPartArrives, k, number_},
                             now + world_.plan.costs.message);
  }
}

void Worker::carry_out(const step::CheckGradient&, Ticks now) {
  advance(step::GradientChecked{round_.computed().fault.empty()}, now);
}

void Worker::carry_out(const step::ApplyLocally&, Ticks now) {
  cache_.own().computed(grant_.clock, node_.stamps().shards());
  if (world_.training != nullptr) world_.training->apply_locally(rank(), grant_);
  if (!world_.plan.applies_at_once) return advance(step::AppliedLocally{}, now);
  phases_at(now).enter(Phase::kApplyGrads);
  std::int64_t floats = 0;
  for (const ShardSizes& shard : shards()) floats += shard.floats;
  const Ticks applied =
      now + length_of(world_.plan.costs.local_apply_ns_per_float * static_cast<double>(floats));
  world_.events.at(applied, {EventKind::kPushSent, number_, 0});
}

void Worker::push_sent(Ticks now) { advance(step::AppliedLocally{}, now); }

void Worker::carry_out(const step::Contribute&, Ticks now) {
  if (world_.reductions != nullptr) return reduce(now);
  if (world_.training != nullptr) world_.training->send(rank());
  const Ticks sent_at = now + world_.plan.costs.message;
  push_left_ = sent_at;
  for (std::uint32_t k = 0; k < shards().size(); ++k) {
    const std::vector<std::int64_t>& early = shards()[k].early;
    const std::int64_t bytes = std::accumulate(early.begin(), early.begin() + fragments_sent_,
                                               shards()[k].gradient.bytes, std::minus<>());
    const Ticks left = world_.network.to_server(
        id_.node, ShardId(k), bytes, {EventKind::kPushArrives, k, number_, stamp_of(grant_.clock)}, sent_at);
    push_left_ = std::max(push_left_, left);
  }
}

// Whose gradient is the last of all says when each node has the sum.
void Worker::reduce(Ticks now) {
  // Of a group, as if it waited ahead of all that it computes.
  const auto waited =
      world_.groups == nullptr ? std::chrono::nanoseconds(0) : world_.groups->waited(id_.node);
  const auto there = world_.reductions->contribute(id_.node, round_.compute_began() + waited, now);
  if (!there) return;
  const std::uint32_t threads = world_.plan.cluster.threads_per_node;
  for (const Reductions::There& one : *there) {
    for (std::uint32_t of_node = 0; of_node < threads; ++of_node) {
      world_.events.at(std::max(now, one.at), {EventKind::kReduced, one.node.value * threads + of_node, 0});
    }
  }
}

// It arrives with the gradient, or alone.
void Worker::carry_out(const step::Report& action, Ticks now) {
  phases_at(now).enter(Phase::kPsApplyGrads);
  if (action.skipped) push_left_ = now + world_.plan.costs.message;
  sent_.add({grant_.clock, round_.computed().metric, round_.computed().fault, cache_.state().version,
             cache_.state().revision, own_updates_, push_left_});
  if (world_.reductions != nullptr) return;  // once the sum is there
  if (action.skipped) {
    world_.network.message({EventKind::kReportArrives, number_, 0, stamp_of(grant_.clock)}, push_left_);
  }
  advance(step::Sent{view()}, now);
}

void Worker::reduced(Ticks now) {
  node_.install_reduced(Version(grant_.clock.value + 1));
  sent_.newest().left = now + world_.plan.costs.message;
  world_.network.message({EventKind::kReportArrives, number_, 0, stamp_of(grant_.clock)},
                         sent_.newest().left);
  advance(step::Sent{view()}, now);
}

void Worker::carry_out(const step::Pull& action, Ticks now) {
  const NodeCache::Request asked = node_.ask(action.min_version, action.fragment);
  switch (action.when) {
    case step::PullWhen::kPrefetch:
      ahead_ = {asked.ticket, now, std::nullopt};
      break;
    case step::PullWhen::kBeforePush:
      pulled_ = {asked.ticket};
      break;
    case step::PullWhen::kAfterPush:
      if (action.fragment == 0) pulled_.clear();
      pulled_.push_back(asked.ticket);
      if (asked.must_be_sent && action.fragment == 0 && round_.computed().fault.empty()) {
        sent_.newest().pull_after = asked.place;
        sent_.newest().pull_ticket = asked.ticket;
        return;
      }
      break;
  }
  if (asked.must_be_sent) node_.send(asked.place, now);
}

// What came while it computed, or applied locally, it takes over when it reads.
void Worker::carry_out(const step::InstallEarly&, Ticks now) {
  if (node_.is_open(pulled_.front())) {
    installs_early_ = true;
  } else {
    advance(step::InstalledEarly{now, now, false, view()}, now);
  }
}

void Worker::note_answered(Ticket pull, Ticks now) {
  if (ahead_.ticket == pull) ahead_.until = now;
  if (!installs_early_ || pulled_.front() != pull) return;
  installs_early_ = false;
  const bool anything = cache_.is_behind(node_.stamps());
  cache_.set_copied_in(anything);
  if (step_.grant_waits()) node_.note(grant_);
  advance(step::InstalledEarly{now, now, anything, view()}, now);
}

// The thread does not wait for what it asked for with its last push: nobody will compute with it.
void Worker::finish_arrives(Ticks now) {
  instructions_.finish_came();
  installs_early_ = false;
  advance(step::Finished{}, now);
  if (!phases_.running()) return;  // it never had a grant
  phases_.at(grant_.clock.next());
  phases_at(now).end({instructions_.finish_held(), std::nullopt, 2 * world_.plan.costs.message});
}

void Worker::add_spans(std::vector<trace::WorkerSpans>& to) const {
  if (spans_) to.push_back({id_, spans_->in_order(), spans_->left_out()});
}

Worker::Totals& Worker::Totals::operator+=(const Totals& other) {
  parameter_reads += other.parameter_reads;
  server_reads += other.server_reads;
  overruns += other.overruns;
  steps += other.steps;
  return *this;
}

}  // namespace paceline::simulate
