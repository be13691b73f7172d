#include "tests/sim/run_plan.h"

#include <algorithm>

#include "common/config/names.h"
#include "common/random.h"

namespace paceline::test {
namespace {

using namespace paceline::sync;

// Two or three policies that can go with `eager`, each with a range of its own.
void draw_stages(CounterRandom& random, bool eager, PolicyConfig& policy) {
  const PolicyKind kinds[] = {eager ? PolicyKind::kAsp : PolicyKind::kBsp, PolicyKind::kSsp,
                              PolicyKind::kDtssp, PolicyKind::kRandomWalk, PolicyKind::kDssp};
  policy.stages.resize(2 + random.next_below(2));
  for (std::size_t i = 0; i < policy.stages.size(); ++i) {
    PolicyStage& stage = policy.stages[i];
    stage.policy = kinds[random.next_below(5)];
    stage.threshold_min = static_cast<std::int64_t>(random.next_below(3));
    stage.threshold = stage.threshold_min + static_cast<std::int64_t>(random.next_below(3));
    stage.threshold_max = stage.threshold + static_cast<std::int64_t>(random.next_below(3));
    if (i + 1 == policy.stages.size()) break;
    const StageUntil ends[] = {{StageEnd::kVersion, 1.0 + static_cast<double>(random.next_below(4))},
                               {StageEnd::kIterations, 1.0 + static_cast<double>(random.next_below(30))},
                               {StageEnd::kTrainAccuracy, 0.2 + 0.5 * random.next_double()},
                               {StageEnd::kTrainLoss, 0.3 + 0.3 * random.next_double()}};
    stage.until = ends[random.next_below(4)];
  }
}

void draw_policy(CounterRandom& random, RunPlan& plan) {
  PolicyConfig& policy = plan.config.policy;
  const PolicyKind kinds[] = {PolicyKind::kBsp,   PolicyKind::kAsp,        PolicyKind::kSsp,
                              PolicyKind::kDtssp, PolicyKind::kRandomWalk, PolicyKind::kDssp,
                              PolicyKind::kSwitch};
  policy.kind = kinds[random.next_below(7)];
  // One run in three of bsp and ssp, drawn from elsewhere, so that what the other seeds find stays what it
  // was.
  CounterRandom backups(plan.seed, Stream::kTest, 5);
  const bool plain = policy.kind == PolicyKind::kBsp || policy.kind == PolicyKind::kSsp;
  if (plain && backups.next_below(3) == 0) policy.kind = PolicyKind::kBackup;
  policy.backup_workers = static_cast<std::int64_t>(backups.next_below(plan.config.cluster.workers()));
  policy.threshold_min = static_cast<std::int64_t>(random.next_below(3));
  policy.threshold = policy.threshold_min + static_cast<std::int64_t>(random.next_below(3));
  policy.threshold_max = policy.threshold + static_cast<std::int64_t>(random.next_below(3));
  plan.config.window_clocks = 1 + static_cast<std::int64_t>(random.next_below(3));
  plan.config.lpr_metric = static_cast<LprMetric>(random.next_below(2));

  const bool eager =
      policy.kind == PolicyKind::kAsp ||
      (policy.kind != PolicyKind::kBsp && policy.kind != PolicyKind::kBackup && random.next_below(2));
  policy.seed = plan.seed;
  if (policy.kind == PolicyKind::kSwitch) draw_stages(random, eager, policy);
  plan.config.apply = eager ? ApplyMode::kEager : ApplyMode::kVersioned;
  plan.config.combine = eager || random.next_below(2) ? CombineMode::kEach : CombineMode::kMean;
  plan.config.batch_size = 32;
  const bool may_balance = plan.config.combine == CombineMode::kMean && plan.config.share == Share::kEven &&
                           policy.kind != PolicyKind::kBackup;
  if (may_balance && backups.next_below(2) == 0) plan.config.batch_sizing = BatchSizing::kBySpeed;
  const bool refreshes = sync::largest_threshold(policy).is_infinite() || random.next_below(2);
  if (refreshes) plan.refresh_clocks = 1 + static_cast<std::int64_t>(random.next_below(3));
}

// Half of the switches that begin versioned turn eager: at their second policy or at their third, with asp or
// with whatever was drawn. Drawn from elsewhere.
void draw_turn(RunPlan& plan) {
  CounterRandom random(plan.seed, Stream::kTest, 10);
  std::vector<PolicyStage>& stages = plan.config.policy.stages;
  const bool may_turn = !stages.empty() && plan.config.apply == ApplyMode::kVersioned &&
                        plan.config.batch_sizing == BatchSizing::kEqual;
  if (!may_turn || random.next_below(2) == 0) return;
  const std::size_t first = 1 + random.next_below(static_cast<std::uint32_t>(stages.size() - 1));
  for (std::size_t i = first; i < stages.size(); ++i) {
    if (stages[i].policy == PolicyKind::kBsp || (i == first && random.next_below(2) == 0)) {
      stages[i].policy = PolicyKind::kAsp;
      if (!plan.refresh_clocks) plan.refresh_clocks = 1;
    }
  }
  if (stages[first].policy != PolicyKind::kAsp) stages[first].apply = ApplyMode::kEager;
}

void draw_faults(CounterRandom& random, RunPlan& plan) {
  const Cluster cluster = plan.config.cluster;
  for (std::uint32_t n = 0; n < cluster.nodes; ++n) {
    if (random.next_below(6) == 0) {
      plan.dies_at_ns[NodeId(n)] = static_cast<std::int64_t>(random.next_below(60'000'000));
    }
  }
  for (std::uint32_t r = 0; r < cluster.workers(); ++r) {
    if (random.next_below(12) == 0) {
      plan.leaves_at[cluster.worker_at(Rank(r))] = Clock(static_cast<std::int64_t>(random.next_below(5)));
    }
  }
  if (random.next_below(8) == 0) plan.stop_at_ns = static_cast<std::int64_t>(random.next_below(50'000'000));
  plan.config.on_nan = random.next_below(8) == 0 ? OnNan::kStop : OnNan::kSkip;
  if (random.next_below(3) == 0) plan.nan_chance = 0.08;
  if (random.next_below(3) == 0) plan.corrupt_chance = 0.05;
  if (random.next_below(2) == 0) plan.duplicate_chance = 0.1;
}

// Who comes late or comes back, drawn from elsewhere, so that runs in which nobody does stay what they were.
void draw_late_and_returning(RunPlan& plan) {
  CounterRandom random(plan.seed, Stream::kTest, 6);
  if (!workers_come_and_go(plan.config) || random.next_below(2) == 0) return;
  const std::uint32_t nodes = plan.config.cluster.nodes;
  for (std::uint32_t n = 0; n < nodes; ++n) {
    const auto at = static_cast<std::int64_t>(random.next_below(50'000'000));
    if (random.next_below(4) == 0 && plan.comes_at_ns.size() + 1 < nodes) plan.comes_at_ns[NodeId(n)] = at;
    if (random.next_below(3) > 0) {
      plan.returns_after_ns[NodeId(n)] = static_cast<std::int64_t>(random.next_below(30'000'000));
    }
  }
  plan.config.nodes_at_start = nodes - static_cast<std::uint32_t>(plan.comes_at_ns.size());
}

// DSSP: one of the fast, which have many extra iterations beside a slow one, is lost in the middle of them
// and soon there again. Drawn from elsewhere, too.
void draw_early_return(RunPlan& plan) {
  CounterRandom random(plan.seed, Stream::kTest, 9);
  const std::uint32_t nodes = plan.config.cluster.nodes;
  const bool may_return = plan.config.policy.kind == PolicyKind::kDssp && workers_come_and_go(plan.config);
  if (!may_return || nodes < 2 || random.next_below(2) == 0) return;
  plan.config.policy.threshold_max += 8;
  plan.config.total_iterations += 60;
  plan.slowdown.assign(nodes, 1.0);
  plan.slowdown[0] = 25.0;
  plan.dies_at_ns[NodeId(nodes - 1)] = 20'000'000 + static_cast<std::int64_t>(random.next_below(60'000'000));
  plan.returns_after_ns[NodeId(nodes - 1)] = static_cast<std::int64_t>(random.next_below(1'000'000));
}

// And from elsewhere.
void draw_other_samples(RunPlan& plan) {
  CounterRandom random(plan.seed, Stream::kTest, 7);
  const bool balanced = plan.config.batch_sizing == BatchSizing::kBySpeed;
  if (balanced && random.next_below(2) == 0) plan.other_samples_chance = 0.1;
}

// A fifth of the runs in which workers come and go, drawn from elsewhere.
void draw_rest(RunPlan& plan) {
  CounterRandom random(plan.seed, Stream::kTest, 13);
  const auto at = static_cast<std::int64_t>(random.next_below(50'000'000));
  if (workers_come_and_go(plan.config) && random.next_below(5) == 0) plan.quiesces_at_ns = at;
}

// Half of the runs, drawn from elsewhere: the others stay what they were.
void draw_cuts(RunPlan& plan) {
  CounterRandom random(plan.seed, Stream::kTest, 11);
  if (random.next_below(2) == 0) return;
  const auto up_to = [&](std::uint64_t ms) {
    return static_cast<std::int64_t>(random.next_below(ms * 1'000'000));
  };
  plan.lease_ns = 15'000'000 + up_to(20);
  const std::uint32_t shards = plan.config.shards;
  plan.cuts.resize(1 + random.next_below(4));
  for (LinkCut& cut : plan.cuts) {
    cut.at_ns = up_to(100);
    cut.for_ns = 200'000 + up_to(random.next_below(4) > 0 ? 8 : 70);
    const ShardId server(static_cast<std::uint32_t>(random.next_below(shards)));
    if (server != kAuthority && random.next_below(2) == 0) {
      cut.server = server;
      continue;
    }
    cut.node = NodeId(static_cast<std::uint32_t>(random.next_below(plan.config.cluster.nodes)));
    if (random.next_below(2) == 0) cut.server = server;
  }
}

// And from elsewhere.
void draw_crashes(RunPlan& plan) {
  CounterRandom random(plan.seed, Stream::kTest, 12);
  if (random.next_below(4) > 0) return;
  plan.crashes_at_ns.resize(1 + random.next_below(3));
  for (std::int64_t& at : plan.crashes_at_ns) at = static_cast<std::int64_t>(random.next_below(100'000'000));
}

}  // namespace

RunPlan plan_of(std::uint64_t seed) {
  CounterRandom random(seed, Stream::kTest, 1);
  RunPlan plan;
  plan.seed = seed;
  plan.config.cluster.nodes = 1 + static_cast<std::uint32_t>(random.next_below(3));
  plan.config.cluster.threads_per_node = 1 + static_cast<std::uint32_t>(random.next_below(3));
  plan.config.shards = 1 + static_cast<std::uint32_t>(random.next_below(3));
  plan.config.share = static_cast<Share>(random.next_below(2));
  plan.config.total_iterations = 1 + static_cast<std::int64_t>(random.next_below(48));
  draw_policy(random, plan);
  draw_turn(plan);
  for (std::uint32_t n = 0; n < plan.config.cluster.nodes; ++n) {
    plan.slowdown.push_back(1.0 + 4.0 * random.next_double());
  }
  if (random.next_below(3) > 0) draw_faults(random, plan);
  draw_late_and_returning(plan);
  draw_early_return(plan);
  draw_other_samples(plan);
  draw_rest(plan);
  draw_cuts(plan);
  plan.pulls_before_push = CounterRandom(plan.seed, Stream::kTest, 14).next_below(2) == 0;
  CounterRandom local(plan.seed, Stream::kTest, 15);
  // What DSSP may do wrong few runs show, by their timing: those stay what they were.
  const std::vector<PolicyStage>& stages = plan.config.policy.stages;
  const bool may_be_local = plan.config.policy.kind != PolicyKind::kDssp &&
                            std::none_of(stages.begin(), stages.end(), [](const PolicyStage& stage) {
                              return stage.policy == PolicyKind::kDssp;
                            });
  if (may_be_local && local.next_below(4) == 0) {
    plan.mini_batch = local.next_below(2) == 0 || plan.config.batch_sizing == BatchSizing::kBySpeed ? 8 : 16;
  }
  draw_crashes(plan);
  // A grant ahead, as of rounds whose exchange is hidden; not with asp, whose caches it would let grow old.
  const bool may_go_ahead = may_be_local && plan.config.policy.kind != PolicyKind::kBackup &&
                            !sync::largest_threshold(plan.config.policy).is_infinite() &&
                            plan.config.policy.kind != PolicyKind::kBsp;
  CounterRandom ahead(plan.seed, Stream::kTest, 16);
  plan.config.grants_ahead = may_go_ahead && ahead.next_below(2) == 0;
  return plan;
}

std::string RunPlan::describe() const {
  return "seed " + std::to_string(seed) + ": " + name_of(config.policy.kind) +
         (config.apply == ApplyMode::kEager ? " eager" : " versioned") +
         (turns_eager() ? " then eager" : "") + (config.share == Share::kPool ? " pool" : " even") +
         " s=" + std::to_string(config.policy.threshold) + " nodes=" + std::to_string(config.cluster.nodes) +
         " threads=" + std::to_string(config.cluster.threads_per_node) +
         " shards=" + std::to_string(config.shards) + " total=" + std::to_string(config.total_iterations) +
         " r=" + (refresh_clocks ? std::to_string(*refresh_clocks) : "null") +
         (pulls_before_push ? "" : " behind") + (config.grants_ahead ? " granted ahead" : "") +
         " mini_batch=" + std::to_string(mini_batch) + " deaths=" + std::to_string(dies_at_ns.size()) +
         " leavers=" + std::to_string(leaves_at.size()) + " late=" + std::to_string(comes_at_ns.size()) +
         " returning=" + std::to_string(returns_after_ns.size()) + " cuts=" + std::to_string(cuts.size()) +
         " crashes=" + std::to_string(crashes_at_ns.size());
}

}  // namespace paceline::test
