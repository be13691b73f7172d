// Policies, how gradients are applied, thresholds, stages, backup workers and balanced batches.
#include <algorithm>

#include "common/config/checks.h"
#include "common/config/domain.h"
#include "common/config/engine_config.h"
#include "common/config/names.h"
#include "common/sync/batch_balance.h"
#include "common/sync/engine_config.h"

namespace paceline::config {
namespace {

// Whether this way of applying is one that the run's policy, or that of stage `at`, can go with.
void check_policy_applies(Validator& validator, const SyncSection& sync, PolicyKind policy, ApplyMode apply,
                          const std::string& at) {
  const std::string combination =
      std::string(name_of(policy)) + " with apply: " + name_of(apply) + ", combine: " + name_of(sync.combine);
  validator.refuse_if(policy == PolicyKind::kBsp && apply == ApplyMode::kEager, {"sync.apply", at.c_str()},
                      "bsp is exact only version by version", combination, "apply: versioned");
  validator.refuse_if(policy == PolicyKind::kBackup && apply == ApplyMode::kEager, {"sync.apply", at.c_str()},
                      "what is applied on arrival is late for nothing", combination, "apply: versioned");
  validator.refuse_if(policy == PolicyKind::kAsp && apply == ApplyMode::kVersioned,
                      {"sync.apply", at.c_str()}, "asp would hold gradients without bound for the slowest",
                      combination, "apply: eager");
  validator.refuse_if(policy == PolicyKind::kAsp && !sync.refresh_clocks, {"sync.refresh_clocks", at.c_str()},
                      "under asp nothing is ever required, so nobody would pull", "null",
                      "refresh_clocks: 1 or more");
}

std::string stage_key(std::size_t i) { return "sync.stages[" + std::to_string(i) + "]"; }

// The first stage applies as the run does; a later one may turn eager, and none goes back.
void check_stage_applies(Validator& validator, const SyncSection& sync, std::size_t i) {
  const PolicyStage& stage = sync.stages[i];
  const std::string key = stage_key(i);
  const ApplyMode apply = apply_in(sync.stages, sync.apply, i);
  if (i == 0) {
    const ApplyMode own = stage.apply.value_or(sync.apply);
    validator.refuse_if(own != sync.apply, {key.c_str(), "sync.apply"}, "two answers for the first stage",
                        std::string("apply: ") + name_of(own) + " beside sync.apply: " + name_of(sync.apply),
                        "one of the two, or the same");
  } else if (apply_in(sync.stages, sync.apply, i - 1) == ApplyMode::kEager) {
    const bool back = apply == ApplyMode::kVersioned || stage.policy == PolicyKind::kBsp;
    validator.refuse_if(
        back, {key.c_str()}, "what was applied on arrival has no clock's turn any more",
        std::string(name_of(stage.policy)) + ", which is versioned, after " +
            name_of(sync.stages[i - 1].policy) + " with apply: eager",
        "stages that are versioned before those that are eager; ssp with threshold: 0 waits as "
        "bsp does");
    if (back) return;
  }
  check_policy_applies(validator, sync, stage.policy, apply, key);
}

void check_application(Validator& validator, const SyncSection& sync) {
  check_policy_applies(validator, sync, sync.policy, sync.apply, "sync.policy");
  for (std::size_t i = 0; i < sync.stages.size(); ++i) check_stage_applies(validator, sync, i);
  validator.refuse_if(
      sync.apply == ApplyMode::kEager && sync.combine == CombineMode::kMean, {"sync.combine", "sync.apply"},
      "eager applies each gradient on arrival and has no clock to average over",
      std::string(name_of(sync.policy)) + " with apply: eager, combine: mean", "combine: each");
  validator.refuse_if(sync.pull_order != PullOrder::kAuto && !is_ever_eager(sync.stages, sync.apply),
                      {"sync.pull_order", "sync.apply"},
                      "what is versioned is always asked for after the gradient",
                      std::string("pull_order: ") + name_of(sync.pull_order) + ", and nothing is eager",
                      "apply: eager, or pull_order: auto");
}

// The thresholds of `policy`; `keys`: where they stand, min, max and initial.
template <typename Thresholds>
void check_range(Validator& validator, PolicyKind policy, const Thresholds& t,
                 std::initializer_list<const char*> keys, const char* initial) {
  const bool moves = policy == PolicyKind::kDtssp || policy == PolicyKind::kRandomWalk;
  if (!moves && policy != PolicyKind::kDssp) return;
  const std::string range =
      "[" + std::to_string(t.threshold_min) + ", " + std::to_string(t.threshold_max) + "]";
  validator.refuse_if(t.threshold_min > t.threshold_max, keys, "threshold_min > threshold_max", range,
                      "threshold_min <= threshold_max");
  validator.refuse_if(policy == PolicyKind::kDssp && t.threshold_max - t.threshold_min > sync::kDsspRangeMax,
                      keys, "a range that dssp would look through at every question of the fastest", range,
                      "threshold_max - threshold_min to be at most " + std::to_string(sync::kDsspRangeMax));
  const char* const first = *keys.begin();
  validator.refuse_if(moves && (t.threshold < t.threshold_min || t.threshold > t.threshold_max),
                      {initial, first, *(keys.end() - 1)}, "the initial threshold is outside its range",
                      "threshold " + std::to_string(t.threshold) + " and range " + range,
                      "threshold_min <= threshold <= threshold_max");
}

void check_backups(Validator& validator, const RunConfig& c) {
  const std::int64_t workers = c.cluster.cluster().workers();
  validator.refuse_if(c.sync.policy == PolicyKind::kBackup && c.sync.backup_workers >= workers,
                      {"sync.backup_workers", "cluster.nodes", "sync.policy"},
                      "no gradient would be waited for",
                      std::to_string(c.sync.backup_workers) + " of " + std::to_string(workers) + " workers",
                      "backup_workers below the number of workers");
  // What is owed of earlier gradients leaves with the next one, and would be dropped with it.
  const Encoding encoding = c.cluster.gradient_encoding;
  validator.refuse_if(
      c.sync.policy == PolicyKind::kBackup && (encoding == Encoding::kInt8 || encoding == Encoding::kTopK),
      {"cluster.gradient_encoding", "sync.policy"},
      "what is still owed of gradients that count would be dropped with one that is late",
      std::string("gradient_encoding: ") + name_of(encoding) + " with policy: backup", "fp32, fp16 or bf16");
}

// Where each clock is cut for all workers of the run nobody can come later (sync::workers_come_and_go).
void check_late_nodes(Validator& validator, const RunConfig& c) {
  if (!c.cluster.nodes_at_start) return;
  const std::string nodes = node_counts().write(c.cluster);
  validator.refuse_if(c.sync.policy == PolicyKind::kBackup && c.sync.backup_workers > 0,
                      {"cluster.nodes", "sync.backup_workers"}, "with backup workers nobody comes later",
                      nodes, "one number, another policy, or backup_workers: 0");
  validator.refuse_if(c.train.sizing() != BatchSizing::kEqual, {"cluster.nodes", balance_key(c.train)},
                      "the samples of each clock are cut for all workers of the run", nodes,
                      "one number, or no balance");
  validator.refuse_if(c.data.parts == DataParts::kFixed, {"cluster.nodes", "data.parts"},
                      "a part for each node needs to know how many there are", nodes,
                      "one number, or parts: anew");
}

// Each mini-batch is to be its node's own.
void check_parts(Validator& validator, const RunConfig& c) {
  if (c.data.parts != DataParts::kFixed) return;
  validator.refuse_if(c.train.share != Share::kEven, {"data.parts", "train.share"},
                      "a pool gives a mini-batch to whoever comes first",
                      std::string("fixed with share: ") + name_of(c.train.share),
                      "share: even, or parts: anew");
  validator.refuse_if(c.train.sizing() != BatchSizing::kEqual, {"data.parts", balance_key(c.train)},
                      "a clock's samples are cut anew again and again", "fixed with sizes by speed",
                      "no balance, or parts: anew");
}

void check_batches(Validator& validator, const RunConfig& c) {
  if (c.train.sizing() == BatchSizing::kEqual) return;
  const char* const key = balance_key(c.train);
  validator.refuse_if(c.sync.combine != CombineMode::kMean, {key, "sync.combine"},
                      "unequal mini-batches are weighted by samples, which each does not do",
                      std::string("combine: ") + name_of(c.sync.combine), "combine: mean");
  validator.refuse_if(is_ever_eager(c.sync.stages, c.sync.apply) && c.sync.combine == CombineMode::kMean,
                      {key, "sync.stages"}, "a stage that is eager averages nothing",
                      "a stage with apply: eager", "versioned stages, or no balance");
  validator.refuse_if(c.train.share != Share::kEven, {key, "train.share"}, "a pool evens speeds out itself",
                      std::string("share: ") + name_of(c.train.share), "share: even");
  validator.refuse_if(c.sync.policy == PolicyKind::kBackup, {key, "sync.policy"},
                      "the speed of who is dropped is not known", "policy: backup", "another policy");
  validator.refuse_if(
      c.train.batch_balance != BatchSizing::kEqual && c.train.batch_size % sync::kBatchStep != 0,
      {"train.batch_size", "train.batch_balance"}, "mini-batches change in steps of 8",
      std::to_string(c.train.batch_size), "a multiple of 8");
}

void check_threshold(Validator& validator, const SyncSection& sync) {
  check_range(validator, sync.policy, sync, {"sync.threshold_min", "sync.threshold_max"}, "sync.threshold");
  for (std::size_t i = 0; i < sync.stages.size(); ++i) {
    const std::string key = stage_key(i);
    check_range(validator, sync.stages[i].policy, sync.stages[i], {key.c_str()}, key.c_str());
  }
  validator.refuse_if(follows_progress(sync) && sync.lpr.increase_above < sync.lpr.decrease_below,
                      {"sync.lpr.increase_above", "sync.lpr.decrease_below"},
                      "one progress would both raise and lower the threshold",
                      "increase_above " + real({}).write(sync.lpr.increase_above) + " and decrease_below " +
                          real({}).write(sync.lpr.decrease_below),
                      "increase_above >= decrease_below");
}

// A share of the run is a number of iterations.
StageUntil counted(const RunConfig& c, StageUntil until) {
  if (until.end != StageEnd::kProgress) return until;
  return {StageEnd::kIterations, iterations_of(until.value, c.train.total_iterations)};
}

// The first version or number of iterations that is too late for another policy to take over: nothing
// would be granted under it. With even shares the last version is ceil(total / workers), and the one
// before it is there when everybody has completed so many. From a pool it depends on who takes how many.
std::optional<double> too_late(const RunConfig& c, StageEnd end) {
  const bool even = c.train.share == Share::kEven;
  const std::int64_t workers = c.cluster.cluster().workers();
  const std::int64_t versions = (c.train.rounds() + workers - 1) / workers;
  if (end == StageEnd::kVersion && even) return static_cast<double>(versions);
  if (end != StageEnd::kIterations) return std::nullopt;
  return static_cast<double>(even ? c.train.iterations_in((versions - 1) * workers) + 1
                                  : c.train.total_iterations);
}

// Of versions or iterations: an end that is not after those before it, or not before the run's.
void check_stage_end(Validator& validator, const RunConfig& c, std::size_t i) {
  const std::vector<PolicyStage>& stages = c.sync.stages;
  const StageUntil& until = stages[i].until;
  const std::string key = stage_key(i);
  const bool last = i + 1 == stages.size();
  validator.refuse_if(last && until.end != StageEnd::kNever, {key.c_str()}, "nothing follows the last stage",
                      "until", "no until: it ends with the run");
  validator.refuse_if(!last && until.end == StageEnd::kNever, {key.c_str()}, "a stage that never ends",
                      "no until", "until: the next stage has to begin");
  if (last || until.end == StageEnd::kNever) return;
  const StageUntil own = counted(c, until);
  const std::string condition = std::string(name_of(until.end)) + " " + real({}).write(until.value);
  const std::optional<double> limit = too_late(c, own.end);
  validator.refuse_if(limit && own.value >= *limit,
                      {key.c_str(), "train.total_iterations", "train.share", "cluster.nodes"},
                      "the next stage would never begin",
                      "until " + condition + " of " + std::to_string(c.train.total_iterations) +
                          " iterations by " + std::to_string(c.cluster.cluster().workers()) + " workers",
                      limit ? std::string(name_of(own.end)) + " below " + real({}).write(*limit) : "");
  const bool counts = own.end == StageEnd::kVersion || own.end == StageEnd::kIterations;
  for (std::size_t before = 0; counts && before < i; ++before) {
    const StageUntil& earlier = stages[before].until;
    const StageUntil other = counted(c, earlier);
    if (other.end != own.end) continue;
    validator.refuse_if(other.value >= own.value, {key.c_str()}, "a stage that is over when it begins",
                        condition + " after " + name_of(earlier.end) + " " + real({}).write(earlier.value),
                        "growing ends");
  }
}

void check_stages(Validator& validator, const RunConfig& c) {
  if (c.sync.policy != PolicyKind::kSwitch) return;
  validator.refuse_if(c.sync.stages.size() < 2, {"sync.stages", "sync.policy"}, "nothing to switch between",
                      std::to_string(c.sync.stages.size()) + " stages", "sync.stages to list two or more");
  for (std::size_t i = 0; i < c.sync.stages.size(); ++i) check_stage_end(validator, c, i);
}
}  // namespace

const char* balance_key(const TrainSection& train) {
  return train.local_balance != BatchSizing::kEqual ? "train.local_balance" : "train.batch_balance";
}

bool follows_progress(const SyncSection& sync) {
  return sync.policy == PolicyKind::kDtssp ||
         std::any_of(sync.stages.begin(), sync.stages.end(),
                     [](const PolicyStage& stage) { return stage.policy == PolicyKind::kDtssp; });
}

void check_sync(Validator& validator, const RunConfig& c) {
  check_stages(validator, c);
  check_application(validator, c.sync);
  check_threshold(validator, c.sync);
  check_backups(validator, c);
  check_late_nodes(validator, c);
  check_parts(validator, c);
  check_batches(validator, c);
}

}  // namespace paceline::config
