#include "common/sync/engine_config.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "common/sync/backup.h"
#include "common/sync/policy_switch.h"
#include "common/sync/running_iteration.h"

namespace paceline::sync {
namespace {

Status validate_policy(const PolicyConfig& policy) {
  const bool moves = policy.kind == PolicyKind::kDtssp || policy.kind == PolicyKind::kRandomWalk;
  if ((policy.kind == PolicyKind::kSsp || moves) && policy.threshold < 0) {
    return invalid_argument("threshold: got " + std::to_string(policy.threshold) + ", expected 0 or more");
  }
  if (!moves && policy.kind != PolicyKind::kDssp) return Status::ok();
  if (policy.threshold_min < 0 || policy.threshold_min > policy.threshold_max) {
    return invalid_argument("threshold_min: got " + std::to_string(policy.threshold_min) +
                            ", expected 0 .. threshold_max = " + std::to_string(policy.threshold_max));
  }
  if (policy.kind == PolicyKind::kDssp) {
    const std::int64_t range = policy.threshold_max - policy.threshold_min;
    if (range <= kDsspRangeMax) return Status::ok();
    return invalid_argument("threshold_max - threshold_min: got " + std::to_string(range) +
                            ", expected at most " + std::to_string(kDsspRangeMax) + " under dssp");
  }
  if (policy.threshold < policy.threshold_min || policy.threshold > policy.threshold_max) {
    return invalid_argument("threshold: got " + std::to_string(policy.threshold) + ", expected " +
                            std::to_string(policy.threshold_min) + " .. " +
                            std::to_string(policy.threshold_max));
  }
  if (policy.kind != PolicyKind::kDtssp) return Status::ok();
  if (!std::isfinite(policy.increase_above) || !std::isfinite(policy.decrease_below)) {
    return invalid_argument("lpr limits: expected finite numbers");
  }
  if (policy.decrease_below > policy.increase_above) {
    return invalid_argument("lpr.decrease_below: got " + std::to_string(policy.decrease_below) +
                            ", expected at most increase_above = " + std::to_string(policy.increase_above));
  }
  return Status::ok();
}

// Stages have none: a clock that is open when another policy takes over would be closed by the other's rule.
Status validate_backup(const EngineConfig& config) {
  const std::int64_t b = config.policy.backup_workers;
  if (config.policy.kind != PolicyKind::kBackup || (b >= 0 && b < config.cluster.workers())) {
    return Status::ok();
  }
  return invalid_argument("backup_workers: got " + std::to_string(b) + ", expected 0 .. " +
                          std::to_string(config.cluster.workers() - 1) + ", one less than the workers");
}

Status validate_application(PolicyKind kind, ApplyMode apply) {
  if (kind == PolicyKind::kBsp && apply == ApplyMode::kEager) {
    return invalid_argument(
        "policy bsp with apply eager: bsp computes with exact versions, expected versioned");
  }
  if (kind == PolicyKind::kBackup && apply == ApplyMode::kEager) {
    return invalid_argument(
        "policy backup with apply eager: what is applied on arrival is late for nothing, expected versioned");
  }
  if (kind == PolicyKind::kAsp && apply == ApplyMode::kVersioned) {
    return invalid_argument(
        "policy asp with apply versioned: gradients would be held without bound, expected eager");
  }
  return Status::ok();
}

// What was applied on arrival has no clock's turn any more, so nobody goes back to waiting for one.
Status validate_turn(const EngineConfig& config, std::size_t i) {
  const std::vector<PolicyStage>& stages = config.policy.stages;
  if (i == 0) {
    if (stages[0].apply.value_or(config.apply) == config.apply) return Status::ok();
    return invalid_argument("apply: the first stage applies as the run does");
  }
  const ApplyMode before = apply_in(stages, config.apply, i - 1);
  if (before != ApplyMode::kEager) return Status::ok();
  const bool back = apply_in(stages, config.apply, i) != before || stages[i].policy == PolicyKind::kBsp;
  return back ? invalid_argument("versioned after eager: what was applied on arrival has no clock's turn")
              : Status::ok();
}

Status validate_stage(const EngineConfig& config, std::size_t i) {
  const PolicyStage& stage = config.policy.stages[i];
  const bool last = i + 1 == config.policy.stages.size();
  if (stage.policy == PolicyKind::kSwitch) return invalid_argument("a stage is one policy, got switch");
  if (stage.policy == PolicyKind::kBackup) {
    return invalid_argument("backup decides whose gradients count, for a whole run; it is no stage");
  }
  if (last != (stage.until.end == StageEnd::kNever)) {
    return invalid_argument(last ? "the last stage ends with the run, expected no end"
                                 : "expected an end, since another follows");
  }
  if (stage.until.end == StageEnd::kProgress) {
    return invalid_argument("an end by progress, expected a number of iterations");
  }
  if (!std::isfinite(stage.until.value)) return invalid_argument("end: expected a finite number");
  PACELINE_RETURN_IF_ERROR(validate_turn(config, i));
  PACELINE_RETURN_IF_ERROR(
      validate_application(stage.policy, apply_in(config.policy.stages, config.apply, i)));
  return validate_policy(policy_of(config.policy, stage));
}

Status validate_stages(const EngineConfig& config) {
  const std::size_t stages = config.policy.stages.size();
  if (config.policy.kind != PolicyKind::kSwitch) {
    return stages == 0 ? Status::ok() : invalid_argument("stages: only switch has any");
  }
  if (stages < 2) {
    return invalid_argument("stages: got " + std::to_string(stages) + ", expected 2 or more");
  }
  for (std::size_t i = 0; i < stages; ++i) {
    PACELINE_RETURN_IF_ERROR(validate_stage(config, i).with_context("stages[" + std::to_string(i) + "]"));
  }
  return Status::ok();
}

Status validate_start(const EngineConfig& config) {
  if (!config.nodes_at_start) return Status::ok();
  const std::uint32_t nodes = *config.nodes_at_start;
  if (nodes < 1 || nodes > config.cluster.nodes) {
    return invalid_argument("nodes_at_start: got " + std::to_string(nodes) + ", expected 1 .. " +
                            std::to_string(config.cluster.nodes));
  }
  if (nodes == config.cluster.nodes || workers_come_and_go(config)) return Status::ok();
  return invalid_argument("nodes_at_start: got " + std::to_string(nodes) + " of " +
                          std::to_string(config.cluster.nodes) +
                          " with backup workers or batches by speed, where nobody comes later; expected all");
}

// Weighted by samples is what a mean is; an even share says whose turn which samples are.
Status validate_batches(const EngineConfig& config) {
  if (config.batch_sizing == BatchSizing::kEqual) return Status::ok();
  if (config.combine != CombineMode::kMean) {
    return invalid_argument("batches by speed with combine each: expected mean, which weighs by samples");
  }
  if (config.share != Share::kEven) {
    return invalid_argument(
        "batches by speed with share pool: a pool evens speeds out itself, expected even");
  }
  if (is_ever_eager(config.policy.stages, config.apply)) {
    return invalid_argument("batches by speed with a stage that applies on arrival: expected versioned");
  }
  if (config.policy.kind == PolicyKind::kBackup) {
    return invalid_argument("batches by speed with policy backup: who is dropped has no speed");
  }
  if (config.batch_step < 1 || config.batch_size % config.batch_step != 0) {
    return invalid_argument("batch_size: got " + std::to_string(config.batch_size) +
                            ", expected a multiple of " + std::to_string(config.batch_step) + " by speed");
  }
  return Status::ok();
}

}  // namespace

Status validate(const EngineConfig& config) {
  if (config.cluster.nodes < 1) return invalid_argument("nodes: got 0, expected 1 or more");
  if (config.cluster.threads_per_node < 1) {
    return invalid_argument("threads_per_node: got 0, expected 1 or more");
  }
  if (config.shards < 1 || config.shards > RunningIteration::kShardsMax) {
    return invalid_argument("shards: got " + std::to_string(config.shards) + ", expected 1 to " +
                            std::to_string(RunningIteration::kShardsMax));
  }
  if (config.total_iterations < 1) {
    return invalid_argument("total_iterations: got " + std::to_string(config.total_iterations) +
                            ", expected 1 or more");
  }
  if (config.batch_size < 1) {
    return invalid_argument("batch_size: got " + std::to_string(config.batch_size) + ", expected 1 or more");
  }
  if (config.window_clocks && *config.window_clocks < 1) {
    return invalid_argument("lpr.window_clocks: got " + std::to_string(*config.window_clocks) +
                            ", expected 1 or more");
  }
  const std::uint64_t workers = std::uint64_t{config.cluster.nodes} * config.cluster.threads_per_node;
  if (config.group < 1 || workers % config.group != 0) {
    return invalid_argument("group: got " + std::to_string(config.group) + " of " + std::to_string(workers) +
                            " workers, expected a divisor");
  }
  if (config.held_notice_after.count() < 0 || config.held_notice_every.count() <= 0) {
    return invalid_argument("held notice: expected positive durations");
  }
  PACELINE_RETURN_IF_ERROR(validate_policy(config.policy));
  PACELINE_RETURN_IF_ERROR(validate_backup(config));
  PACELINE_RETURN_IF_ERROR(validate_start(config));
  if (config.grants_ahead && config.policy.kind == PolicyKind::kBackup) {
    return invalid_argument("grants ahead with backup workers: expected another policy");
  }

  const bool eager = config.apply == ApplyMode::kEager;
  PACELINE_RETURN_IF_ERROR(validate_application(config.policy.kind, config.apply));
  PACELINE_RETURN_IF_ERROR(validate_stages(config));
  PACELINE_RETURN_IF_ERROR(validate_batches(config));
  if (eager && config.combine == CombineMode::kMean) {
    return invalid_argument(
        "apply eager with combine mean: there is no clock to average over, expected each");
  }
  return Status::ok();
}

std::int64_t gradients_per_clock(const EngineConfig& config) {
  const std::int64_t workers = config.cluster.workers();
  return config.policy.kind == PolicyKind::kBackup ? first_n(workers, config.policy.backup_workers) : workers;
}

bool workers_come_and_go(const EngineConfig& config) {
  return gradients_per_clock(config) == config.cluster.workers() &&
         config.batch_sizing == BatchSizing::kEqual;
}

std::uint32_t stopped_together(const EngineConfig& config) {
  const bool all = config.batch_sizing != BatchSizing::kEqual;
  return all ? static_cast<std::uint32_t>(config.cluster.workers()) : config.group;
}

std::int64_t window_clocks_of(const EngineConfig& config) {
  if (config.window_clocks) return *config.window_clocks;
  constexpr std::int64_t kWindowSamples = 20'000;
  const std::int64_t per_clock = config.batch_size * gradients_per_clock(config);
  return (kWindowSamples + per_clock - 1) / per_clock;
}

Threshold largest_threshold(const PolicyConfig& policy) {
  switch (policy.kind) {
    case PolicyKind::kBsp:
    case PolicyKind::kBackup:
      return Threshold(0);
    case PolicyKind::kAsp:
      return Threshold::infinite();
    case PolicyKind::kSsp:
      return Threshold(policy.threshold);
    case PolicyKind::kDtssp:
    case PolicyKind::kRandomWalk:
    case PolicyKind::kDssp:
      return Threshold(policy.threshold_max);
    case PolicyKind::kSwitch: {
      Threshold largest(0);
      for (const PolicyStage& stage : policy.stages) {
        largest = std::max(largest, largest_threshold(policy_of(policy, stage)));
      }
      return largest;
    }
  }
  PACELINE_ASSERT(false, "unknown policy kind");
  return Threshold(0);
}

std::optional<Threshold> largest_threshold(const EngineConfig& config, ApplyMode apply) {
  const std::vector<PolicyStage>& stages = config.policy.stages;
  if (stages.empty()) {
    return config.apply == apply ? std::optional(largest_threshold(config.policy)) : std::nullopt;
  }
  std::optional<Threshold> largest;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (apply_in(stages, config.apply, i) != apply) continue;
    largest =
        std::max(largest.value_or(Threshold(0)), largest_threshold(policy_of(config.policy, stages[i])));
  }
  return largest;
}

}  // namespace paceline::sync
