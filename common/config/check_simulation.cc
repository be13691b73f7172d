// What virtual time and a simulated cluster can be.
#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "common/config/checks.h"
#include "common/config/cluster_events.h"
#include "common/config/domain.h"
#include "common/config/names.h"

namespace paceline::config {
namespace {

// Virtual time ends after a century (simulate/virtual_time.h). Computations alone that take longer, by their
// means, are refused before anything runs; what else there may be too much of, the run finds out.
void check_virtual_time(Validator& validator, const RunConfig& c) {
  const SimulatedCompute& compute = c.simulate.compute;
  const std::optional<Duration> mean = compute.mean ? compute.mean : c.emulate.base_step;
  if (compute.distribution == ComputeKind::kEmulated || !mean) return;
  const std::vector<double>& factors = compute.slowdown.empty() ? c.emulate.slowdown : compute.slowdown;
  const double slowest = factors.empty() ? 1.0 : *std::max_element(factors.begin(), factors.end());
  const double longest = static_cast<double>(mean->count()) * slowest;
  // Nobody need do so many where shares are not even, where the late are not waited for, where nodes crash or
  // where the run is stopped.
  const bool even = c.train.share == Share::kEven && c.sync.policy != PolicyKind::kBackup;
  const bool whole = even && c.simulate.events.empty() && !c.run.max_seconds;
  const std::int64_t each = whole ? c.train.total_iterations / c.cluster.cluster().workers() : 1;
  const auto century = std::chrono::duration_cast<Duration>(std::chrono::hours(24 * 36'525));
  validator.refuse_if(longest * static_cast<double>(each) > static_cast<double>(century.count()),
                      {"simulate.compute.slowdown", "simulate.compute.mean", "train.total_iterations"},
                      "the slowest worker would compute for more than a century",
                      std::to_string(each) + " iterations of " + real({}).write(longest * 1e-9) + " s",
                      "a smaller mean or slowdown, or fewer train.total_iterations");
  // Weather is drawn period by period.
  const double shortest =
      static_cast<double>(std::min(compute.pause_every.value_or(Duration::max()),
                                   compute.slow_share > 0 ? compute.slow_length : Duration::max())
                              .count());
  validator.refuse_if(
      longest > 1e6 * shortest,
      {"simulate.compute.pause_every", "simulate.compute.slow_length", "simulate.compute.mean"},
      "more than a million periods in one computation",
      "computations of " + real({}).write(longest * 1e-9) + " s and periods of " +
          real({}).write(shortest * 1e-9) + " s",
      "a longer pause_every and slow_length, or a smaller mean or slowdown");
}

// Who joins was not there, or has crashed; somebody is there at the start.
void check_joins(Validator& validator, const RunConfig& c) {
  const std::vector<bool> late = late_nodes(c);
  const bool nobody = std::all_of(late.begin(), late.end(), [](bool is_late) { return is_late; });
  validator.refuse_if(nobody, {"simulate.events", "cluster.nodes"}, "nobody is there at the start",
                      "a join as the first event of every node", "a node without one");
  const bool backups = c.sync.policy == PolicyKind::kBackup && c.sync.backup_workers > 0;
  const bool balanced = c.train.sizing() != BatchSizing::kEqual;
  const bool compensated = c.simulate.mode == SimulateMode::kTraining &&
                           c.train.optimizer.delay_compensation.kind != CompensationKind::kNone;
  std::vector<bool> there(late.size());
  std::transform(late.begin(), late.end(), there.begin(), [](bool is_late) { return !is_late; });
  std::vector<bool> was_there = there;
  for (const ClusterEvent& event : in_order(c.simulate.events)) {
    if (event.node >= there.size()) continue;  // below
    const bool joins = event.kind == ClusterEventKind::kJoin;
    const std::string node =
        "a join of node " + std::to_string(event.node) + " at " + write_duration(event.at);
    validator.refuse_if(joins && there[event.node], {"simulate.events"}, "it is there", node,
                        "a crash of it before, or none");
    validator.refuse_if(joins && backups, {"simulate.events", "sync.backup_workers"},
                        "with backup workers nobody comes later", node,
                        "another policy, or backup_workers: 0");
    validator.refuse_if(joins && balanced, {"simulate.events", balance_key(c.train)},
                        "the samples of each clock are cut for all workers of the run", node, "no balance");
    validator.refuse_if(
        joins && was_there[event.node] && compensated,
        {"simulate.events", "train.optimizer.delay_compensation.kind"},
        "servers keep what a node computes with, and nodes that come back have other parameters",
        node + ", which was there before", "delay_compensation kind: none, or simulate.mode: timing");
    there[event.node] = joins;
    was_there[event.node] = true;
  }
}

}  // namespace

void check_simulation(Validator& validator, const RunConfig& c) {
  const SimulatedCompute& compute = c.simulate.compute;
  const bool emulated = compute.distribution == ComputeKind::kEmulated;
  const std::size_t factors = compute.slowdown.size();
  check_one_or_each(validator, c, "simulate.compute.slowdown", factors, "factor");
  check_one_or_each(validator, c, "simulate.network.bandwidth", c.simulate.network.bandwidth.size(),
                    "bandwidth");
  validator.refuse_if(emulated && factors > 0, {"simulate.compute.slowdown", "simulate.compute.distribution"},
                      "emulated computations have emulate.slowdown", std::to_string(factors) + " factors",
                      "emulate.slowdown, or another distribution");
  validator.refuse_if(
      emulated && compute.mean.has_value(), {"simulate.compute.mean", "simulate.compute.distribution"},
      "emulated computations last emulate.base_step", write_duration(compute.mean.value_or(Duration(0))),
      "emulate.base_step, or another distribution");
  validator.refuse_if(!emulated && !compute.mean && !c.emulate.base_step, {"simulate.compute.distribution"},
                      "a distribution without a mean", "no simulate.compute.mean and no emulate.base_step",
                      "simulate.compute.mean to be a duration");
  check_virtual_time(validator, c);
  validator.refuse_if(compute.distribution == ComputeKind::kNormal && compute.cv > 0.3,
                      {"simulate.compute.cv", "simulate.compute.distribution"},
                      "so wide a normal distribution is often below 0", real({}).write(compute.cv),
                      "at most 0.3, or lognormal or gamma");
  check_joins(validator, c);
  for (std::size_t i = 0; i < c.simulate.events.size(); ++i) {
    const std::string key = "simulate.events[" + std::to_string(i) + "]";
    validator.refuse_if(c.simulate.events[i].node >= c.cluster.nodes, {key.c_str(), "cluster.nodes"},
                        "there is no such node", "node " + std::to_string(c.simulate.events[i].node),
                        "0 to " + std::to_string(c.cluster.nodes - 1));
  }
  validator.refuse_if(!c.simulate.metric.curve.empty() && c.simulate.metric.final_accuracy.has_value(),
                      {"simulate.metric.final_accuracy", "simulate.metric.curve"},
                      "two curves for one metric", "a curve and a final_accuracy", "one of them");
  const bool trains = c.simulate.mode == SimulateMode::kTraining;
  validator.refuse_if(trains && !c.simulate.metric.curve.empty(), {"simulate.metric.curve", "simulate.mode"},
                      "training mode measures the metric", "a curve", "none, or mode: timing");
  validator.refuse_if(trains && c.simulate.metric.final_accuracy.has_value(),
                      {"simulate.metric.final_accuracy", "simulate.mode"},
                      "training mode measures the metric", "a final_accuracy", "none, or mode: timing");
}

}  // namespace paceline::config
