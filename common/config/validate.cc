#include "common/config/validate.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "common/config/domain.h"
#include "common/config/engine_config.h"
#include "common/config/names.h"
#include "common/config/schema.h"
#include "common/network/network.h"
#include "common/sync/batch_balance.h"
#include "common/sync/engine_config.h"

namespace paceline::config {
namespace {

// Reports a contradiction at the first of the keys that was given.
class Judge {
 public:
  explicit Judge(const Given& given) : given_(given) {}

  // Without effect after the first contradiction.
  void refuse_if(bool contradiction, std::initializer_list<const char*> keys, const std::string& what,
                 const std::string& got, const std::string& expected) {
    if (!contradiction || !verdict_.is_ok()) return;
    const std::string key = given_.first(keys);
    verdict_ = invalid_argument(format_error(given_.place_of(key), key, what, got, expected));
  }

  const Given& given() const { return given_; }
  const Status& verdict() const { return verdict_; }

 private:
  const Given& given_;
  Status verdict_;
};

void check_run(Judge& judge, const RunConfig& c) {
  judge.refuse_if(c.run.target_accuracy && !c.train.eval_every_clocks,
                  {"run.target_accuracy", "train.eval_every_clocks"}, "nobody would evaluate before the end",
                  "a target_accuracy without train.eval_every_clocks",
                  "train.eval_every_clocks to be a number of clocks");
}

void check_cluster(Judge& judge, const ClusterSection& cluster) {
  const std::size_t endpoints = cluster.endpoints.size();
  judge.refuse_if(cluster.shards > 1 && !judge.given().has("cluster.endpoints"), {"cluster.shards"},
                  "shards without endpoints",
                  std::to_string(cluster.shards) + " shards and no cluster.endpoints",
                  "cluster.endpoints with one address per shard");
  judge.refuse_if(endpoints != cluster.shards, {"cluster.endpoints", "cluster.shards"},
                  "as many endpoints as shards are needed", std::to_string(endpoints),
                  std::to_string(cluster.shards));
  const std::set<std::string> distinct(cluster.endpoints.begin(), cluster.endpoints.end());
  judge.refuse_if(distinct.size() != endpoints, {"cluster.endpoints"}, "two shards with one address",
                  std::to_string(distinct.size()) + " distinct", std::to_string(endpoints));
  judge.refuse_if(
      cluster.lease <= 2 * cluster.heartbeat, {"cluster.lease", "cluster.heartbeat"},
      "a lease that one late heartbeat can end",
      "lease " + write_duration(cluster.lease) + " with heartbeat " + write_duration(cluster.heartbeat),
      "lease > 2 x heartbeat");
}

void check_encoding(Judge& judge, const ClusterSection& cluster) {
  const bool top_k = cluster.gradient_encoding == Encoding::kTopK;
  judge.refuse_if(cluster.top_k_share && !top_k, {"cluster.top_k_share"}, "only top_k keeps a share",
                  std::string("gradient_encoding: ") + name_of(cluster.gradient_encoding),
                  "gradient_encoding: top_k, or no top_k_share");
  judge.refuse_if(top_k && !cluster.top_k_share, {"cluster.gradient_encoding"}, "top_k without its share",
                  "no top_k_share", "cluster.top_k_share above 0 and at most 1");
  if (!top_k || !cluster.top_k_share) return;
  // Each value kept is 8 bytes, and a message carries 1 MiB.
  const auto kept = std::ceil(*cluster.top_k_share * static_cast<double>(cluster.frame_bytes / 4));
  judge.refuse_if(kept * 8 > (1 << 20), {"cluster.top_k_share", "cluster.frame_bytes"},
                  "a message would be larger than 1MiB",
                  real({}).write(*cluster.top_k_share) + " of " + std::to_string(cluster.frame_bytes / 4) +
                      " values, 8 bytes each",
                  "a smaller share, or smaller frame_bytes");
}

// Whether the run's way of applying is one that its policy, or that of stage `at`, can go with.
void check_policy_applies(Judge& judge, const SyncSection& sync, PolicyKind policy, const std::string& at) {
  const std::string combination = std::string(name_of(policy)) + " with apply: " + name_of(sync.apply) +
                                  ", combine: " + name_of(sync.combine);
  const bool beside_asp = std::any_of(sync.stages.begin(), sync.stages.end(), [](const PolicyStage& stage) {
    return stage.policy == PolicyKind::kAsp;
  });
  const char* expected = "apply: versioned";
  if (at != "sync.policy") expected = "apply: versioned, or ssp with threshold: 0 there";
  if (beside_asp) expected = "ssp with threshold: 0 there, since asp goes with apply: eager alone";
  judge.refuse_if(policy == PolicyKind::kBsp && sync.apply == ApplyMode::kEager, {"sync.apply", at.c_str()},
                  "bsp is exact only version by version", combination, expected);
  judge.refuse_if(policy == PolicyKind::kBackup && sync.apply == ApplyMode::kEager,
                  {"sync.apply", at.c_str()}, "what is applied on arrival is late for nothing", combination,
                  "apply: versioned");
  judge.refuse_if(policy == PolicyKind::kAsp && sync.apply == ApplyMode::kVersioned,
                  {"sync.apply", at.c_str()}, "asp would hold gradients without bound for the slowest",
                  combination, "apply: eager");
  judge.refuse_if(policy == PolicyKind::kAsp && !sync.refresh_clocks, {"sync.refresh_clocks", at.c_str()},
                  "under asp nothing is ever required, so nobody would pull", "null",
                  "refresh_clocks: 1 or more");
}

std::string stage_key(std::size_t i) { return "sync.stages[" + std::to_string(i) + "]"; }

void check_application(Judge& judge, const SyncSection& sync) {
  check_policy_applies(judge, sync, sync.policy, "sync.policy");
  for (std::size_t i = 0; i < sync.stages.size(); ++i) {
    check_policy_applies(judge, sync, sync.stages[i].policy, stage_key(i));
  }
  judge.refuse_if(sync.apply == ApplyMode::kEager && sync.combine == CombineMode::kMean,
                  {"sync.combine", "sync.apply"},
                  "eager applies each gradient on arrival and has no clock to average over",
                  std::string(name_of(sync.policy)) + " with apply: eager, combine: mean", "combine: each");
}

// The thresholds of `policy`; `keys`: where they stand, min, max and initial.
template <typename Thresholds>
void check_range(Judge& judge, PolicyKind policy, const Thresholds& t,
                 std::initializer_list<const char*> keys, const char* initial) {
  const bool moves = policy == PolicyKind::kDtssp || policy == PolicyKind::kRandomWalk;
  if (!moves && policy != PolicyKind::kDssp) return;
  const std::string range =
      "[" + std::to_string(t.threshold_min) + ", " + std::to_string(t.threshold_max) + "]";
  judge.refuse_if(t.threshold_min > t.threshold_max, keys, "threshold_min > threshold_max", range,
                  "threshold_min <= threshold_max");
  judge.refuse_if(policy == PolicyKind::kDssp && t.threshold_max - t.threshold_min > sync::kDsspRangeMax,
                  keys, "a range that dssp would look through at every question of the fastest", range,
                  "threshold_max - threshold_min to be at most " + std::to_string(sync::kDsspRangeMax));
  const char* const first = *keys.begin();
  judge.refuse_if(moves && (t.threshold < t.threshold_min || t.threshold > t.threshold_max),
                  {initial, first, *(keys.end() - 1)}, "the initial threshold is outside its range",
                  "threshold " + std::to_string(t.threshold) + " and range " + range,
                  "threshold_min <= threshold <= threshold_max");
}

void check_backups(Judge& judge, const RunConfig& c) {
  const std::int64_t workers = c.cluster.cluster().workers();
  judge.refuse_if(c.sync.policy == PolicyKind::kBackup && c.sync.backup_workers >= workers,
                  {"sync.backup_workers", "cluster.nodes", "sync.policy"}, "no gradient would be waited for",
                  std::to_string(c.sync.backup_workers) + " of " + std::to_string(workers) + " workers",
                  "backup_workers below the number of workers");
  // What is owed of earlier gradients leaves with the next one, and would be dropped with it.
  const Encoding encoding = c.cluster.gradient_encoding;
  judge.refuse_if(
      c.sync.policy == PolicyKind::kBackup && (encoding == Encoding::kInt8 || encoding == Encoding::kTopK),
      {"cluster.gradient_encoding", "sync.policy"},
      "what is still owed of gradients that count would be dropped with one that is late",
      std::string("gradient_encoding: ") + name_of(encoding) + " with policy: backup", "fp32, fp16 or bf16");
}

void check_batches(Judge& judge, const RunConfig& c) {
  if (c.train.batch_balance == BatchSizing::kEqual) return;
  judge.refuse_if(c.sync.combine != CombineMode::kMean, {"train.batch_balance", "sync.combine"},
                  "unequal mini-batches are weighted by samples, which each does not do",
                  std::string("combine: ") + name_of(c.sync.combine), "combine: mean");
  judge.refuse_if(c.train.share != Share::kEven, {"train.batch_balance", "train.share"},
                  "a pool evens speeds out itself", std::string("share: ") + name_of(c.train.share),
                  "share: even");
  judge.refuse_if(c.sync.policy == PolicyKind::kBackup, {"train.batch_balance", "sync.policy"},
                  "the speed of who is dropped is not known", "policy: backup", "another policy");
  judge.refuse_if(c.train.batch_size % sync::kBatchStep != 0, {"train.batch_size", "train.batch_balance"},
                  "mini-batches change in steps of 8", std::to_string(c.train.batch_size), "a multiple of 8");
}

// Whether progress moves a threshold in this run.
bool follows_progress(const SyncSection& sync) {
  return sync.policy == PolicyKind::kDtssp ||
         std::any_of(sync.stages.begin(), sync.stages.end(),
                     [](const PolicyStage& stage) { return stage.policy == PolicyKind::kDtssp; });
}

void check_threshold(Judge& judge, const SyncSection& sync) {
  check_range(judge, sync.policy, sync, {"sync.threshold_min", "sync.threshold_max"}, "sync.threshold");
  for (std::size_t i = 0; i < sync.stages.size(); ++i) {
    const std::string key = stage_key(i);
    check_range(judge, sync.stages[i].policy, sync.stages[i], {key.c_str()}, key.c_str());
  }
  judge.refuse_if(follows_progress(sync) && sync.lpr.increase_above < sync.lpr.decrease_below,
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
  const std::int64_t versions = (c.train.total_iterations + workers - 1) / workers;
  if (end == StageEnd::kVersion && even) return static_cast<double>(versions);
  if (end != StageEnd::kIterations) return std::nullopt;
  return static_cast<double>(even ? (versions - 1) * workers + 1 : c.train.total_iterations);
}

// Of versions or iterations: an end that is not after those before it, or not before the run's.
void check_stage_end(Judge& judge, const RunConfig& c, std::size_t i) {
  const std::vector<PolicyStage>& stages = c.sync.stages;
  const StageUntil& until = stages[i].until;
  const std::string key = stage_key(i);
  const bool last = i + 1 == stages.size();
  judge.refuse_if(last && until.end != StageEnd::kNever, {key.c_str()}, "nothing follows the last stage",
                  "until", "no until: it ends with the run");
  judge.refuse_if(!last && until.end == StageEnd::kNever, {key.c_str()}, "a stage that never ends",
                  "no until", "until: the next stage has to begin");
  if (last || until.end == StageEnd::kNever) return;
  const StageUntil own = counted(c, until);
  const std::string said = std::string(name_of(until.end)) + " " + real({}).write(until.value);
  const std::optional<double> limit = too_late(c, own.end);
  judge.refuse_if(limit && own.value >= *limit,
                  {key.c_str(), "train.total_iterations", "train.share", "cluster.nodes"},
                  "the next stage would never begin",
                  "until " + said + " of " + std::to_string(c.train.total_iterations) + " iterations by " +
                      std::to_string(c.cluster.cluster().workers()) + " workers",
                  limit ? std::string(name_of(own.end)) + " below " + real({}).write(*limit) : "");
  const bool counts = own.end == StageEnd::kVersion || own.end == StageEnd::kIterations;
  for (std::size_t before = 0; counts && before < i; ++before) {
    const StageUntil& earlier = stages[before].until;
    const StageUntil other = counted(c, earlier);
    if (other.end != own.end) continue;
    judge.refuse_if(other.value >= own.value, {key.c_str()}, "a stage that is over when it begins",
                    said + " after " + name_of(earlier.end) + " " + real({}).write(earlier.value),
                    "growing ends");
  }
}

void check_stages(Judge& judge, const RunConfig& c) {
  if (c.sync.policy != PolicyKind::kSwitch) return;
  judge.refuse_if(c.sync.stages.size() < 2, {"sync.stages", "sync.policy"}, "nothing to switch between",
                  std::to_string(c.sync.stages.size()) + " stages", "sync.stages to list two or more");
  for (std::size_t i = 0; i < c.sync.stages.size(); ++i) check_stage_end(judge, c, i);
}

void check_network(Judge& judge, const TrainSection& train) {
  const bool listed = train.model == "layers";
  judge.refuse_if(listed && train.layers.empty(), {"train.model"}, "model: layers without layers",
                  "no train.layers", "train.layers to list the network");
  judge.refuse_if(!listed && !train.layers.empty(), {"train.layers"}, "layers without model: layers",
                  "model: " + train.model, "model: layers, or no train.layers");
  judge.refuse_if(listed && train.dropout != 0.0, {"train.dropout"}, "dropout is for the ready-made networks",
                  real({}).write(train.dropout), "a {kind: dropout, rate: …} among train.layers");
  // Shapes are inferred here and not only in the workers, so that nobody starts for a network that cannot be.
  if (!judge.verdict().is_ok()) return;
  const auto network = build_network(train);
  if (network.is_ok()) return;
  const std::string& fault = network.status().message();  // "train.layers[3]: conv: kernel 9 is larger …"
  const std::size_t end_of_key = fault.find(": ");
  const std::string key = fault.substr(0, end_of_key);
  // Some faults say themselves what was expected: "dense: out 70000, expected 1 to 65536".
  const std::string got = fault.substr(end_of_key + 2);
  const std::string said = ", expected ";
  const std::size_t end_of_got = got.find(said);
  judge.refuse_if(true, {key.c_str()}, "the network cannot be built", got.substr(0, end_of_got),
                  end_of_got == std::string::npos ? "layers of which each fits the one before"
                                                  : got.substr(end_of_got + said.size()));
}

void check_optimizer(Judge& judge, const RunConfig& c) {
  const OptimizerSection& optimizer = c.train.optimizer;
  const ScheduleSection& schedule = optimizer.schedule;
  judge.refuse_if(optimizer.nesterov && optimizer.kind != OptimizerKind::kMomentum,
                  {"train.optimizer.nesterov", "train.optimizer.kind"}, "nesterov is a kind of momentum",
                  std::string("kind: ") + name_of(optimizer.kind), "kind: momentum, or nesterov: false");
  // One step for a clock, and everybody computes with the version before it: nothing is ever missed.
  const bool lockstep = c.sync.policy == PolicyKind::kBsp || c.sync.policy == PolicyKind::kBackup;
  judge.refuse_if(
      optimizer.staleness == StalenessScaling::kInverse && lockstep && c.sync.combine == CombineMode::kMean,
      {"train.optimizer.staleness", "sync.policy", "sync.combine"},
      std::string("nothing is stale under ") + name_of(c.sync.policy) + " with combine: mean",
      "staleness: inverse", "staleness: none, another policy, or combine: each");
  judge.refuse_if(schedule.kind == ScheduleKind::kStep && schedule.step_versions < 1,
                  {"train.optimizer.schedule.step_versions", "train.optimizer.schedule.kind"},
                  "a step schedule without steps", std::to_string(schedule.step_versions),
                  "step_versions to be at least 1");
  if (schedule.kind != ScheduleKind::kCosine) return;
  const std::int64_t workers = std::int64_t{c.cluster.nodes} * c.cluster.threads_per_node;
  const std::int64_t planned = (c.train.total_iterations + workers - 1) / workers;
  const std::int64_t end = schedule.total_versions.value_or(planned);
  judge.refuse_if(schedule.warmup_versions >= end,
                  {"train.optimizer.schedule.total_versions", "train.optimizer.schedule.warmup_versions",
                   "train.total_iterations", "train.optimizer.schedule.kind"},
                  "the cosine would end before the warm-up does",
                  "warmup_versions " + std::to_string(schedule.warmup_versions) + " of " +
                      std::to_string(end) + " versions",
                  "warmup_versions < total_versions");
}

// The backup is what a worker computed with: a state of the server with the worker's own SGD steps on top.
void check_compensation(Judge& judge, const RunConfig& c) {
  const OptimizerSection& optimizer = c.train.optimizer;
  if (optimizer.delay_compensation.kind == CompensationKind::kNone) return;
  const char* const key = "train.optimizer.delay_compensation.kind";
  judge.refuse_if(optimizer.kind != OptimizerKind::kSgd, {key, "train.optimizer.kind"},
                  "delay compensation is of SGD", std::string("kind: ") + name_of(optimizer.kind),
                  "kind: sgd");
  judge.refuse_if(optimizer.staleness != StalenessScaling::kNone, {key, "train.optimizer.staleness"},
                  "two answers to the same staleness",
                  std::string("staleness: ") + name_of(optimizer.staleness), "staleness: none");
  judge.refuse_if(c.cluster.threads_per_node != 1, {key, "cluster.threads_per_node"},
                  "what a node is sent could be what any of its threads computes with",
                  std::to_string(c.cluster.threads_per_node) + " threads", "threads_per_node: 1");
  judge.refuse_if(c.cluster.parameter_encoding != Encoding::kFp32, {key, "cluster.parameter_encoding"},
                  "the servers keep what they have, not what a node made of fewer bytes",
                  name_of(c.cluster.parameter_encoding), "parameter_encoding: fp32");
  judge.refuse_if(c.sync.combine != CombineMode::kEach, {key, "sync.combine"},
                  "each gradient is compensated by itself", "combine: mean", "combine: each");
}

void check_data(Judge& judge, const DataSection& data) {
  const bool none = judge.given().has("data.kind") && !judge.given().has("data.path");
  judge.refuse_if(none && data.kind == DataKind::kSynthetic, {"data.kind"}, "synthetic without data.path",
                  "no path", "data.path to name a folder that `paceline data synthesize --out DIR` wrote");
  judge.refuse_if(data.kind == DataKind::kCifar10 && data.path.empty(), {"data.kind"},
                  "cifar10 without data.path", "no path",
                  "data.path to name the folder with data_batch_1.bin … test_batch.bin");
}

void check_emulation(Judge& judge, const RunConfig& c) {
  const EmulateSection& emulate = c.emulate;
  const std::size_t factors = emulate.slowdown.size();
  judge.refuse_if(factors > 1 && factors != c.cluster.nodes, {"emulate.slowdown", "cluster.nodes"},
                  "one factor, or one for each node", std::to_string(factors) + " factors",
                  "1 or " + std::to_string(c.cluster.nodes));
  // `base_step: null` says that emulation is off on purpose; a slowdown or jitter alone is a forgotten
  // base_step.
  const bool forgotten = !emulate.base_step && !judge.given().has("emulate.base_step");
  const std::string expected = "base_step: a duration, or base_step: null to switch emulation off";
  judge.refuse_if(forgotten && factors > 0, {"emulate.slowdown"},
                  "a slowdown without emulate.base_step emulates nothing", "no base_step", expected);
  const double limit =
      emulate.jitter == JitterKind::kUniform || emulate.jitter == JitterKind::kExponential ? 1.0 : 3.0;
  const bool too_wide = emulate.jitter_spread > limit ||
                        (emulate.jitter == JitterKind::kUniform && emulate.jitter_spread >= limit);
  judge.refuse_if(too_wide, {"emulate.jitter_spread", "emulate.jitter"},
                  std::string("too wide for jitter: ") + name_of(emulate.jitter),
                  real({}).write(emulate.jitter_spread),
                  emulate.jitter == JitterKind::kUniform ? "below 1, so that no factor is 0" : "at most 1");
  judge.refuse_if(forgotten && emulate.jitter != JitterKind::kNone, {"emulate.jitter"},
                  "a jitter without emulate.base_step emulates nothing", "no base_step", expected);
}

// Virtual time ends after a century (simulate/virtual_time.h). Computations alone that take longer, by their
// means, are refused before anything runs; what else there may be too much of, the run finds out.
void check_virtual_time(Judge& judge, const RunConfig& c) {
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
  judge.refuse_if(longest * static_cast<double>(each) > static_cast<double>(century.count()),
                  {"simulate.compute.slowdown", "simulate.compute.mean", "train.total_iterations"},
                  "the slowest worker would compute for more than a century",
                  std::to_string(each) + " iterations of " + real({}).write(longest * 1e-9) + " s",
                  "a smaller mean or slowdown, or fewer train.total_iterations");
  // Weather is drawn period by period.
  const double shortest =
      static_cast<double>(std::min(compute.pause_every.value_or(Duration::max()),
                                   compute.slow_share > 0 ? compute.slow_length : Duration::max())
                              .count());
  judge.refuse_if(longest > 1e6 * shortest,
                  {"simulate.compute.pause_every", "simulate.compute.slow_length", "simulate.compute.mean"},
                  "more than a million periods in one computation",
                  "computations of " + real({}).write(longest * 1e-9) + " s and periods of " +
                      real({}).write(shortest * 1e-9) + " s",
                  "a longer pause_every and slow_length, or a smaller mean or slowdown");
}

void check_simulation(Judge& judge, const RunConfig& c) {
  const SimulatedCompute& compute = c.simulate.compute;
  const bool emulated = compute.distribution == ComputeKind::kEmulated;
  const std::size_t factors = compute.slowdown.size();
  judge.refuse_if(factors > 1 && factors != c.cluster.nodes, {"simulate.compute.slowdown", "cluster.nodes"},
                  "one factor, or one for each node", std::to_string(factors) + " factors",
                  "1 or " + std::to_string(c.cluster.nodes));
  judge.refuse_if(emulated && factors > 0, {"simulate.compute.slowdown", "simulate.compute.distribution"},
                  "emulated computations have emulate.slowdown", std::to_string(factors) + " factors",
                  "emulate.slowdown, or another distribution");
  judge.refuse_if(
      emulated && compute.mean.has_value(), {"simulate.compute.mean", "simulate.compute.distribution"},
      "emulated computations last emulate.base_step", write_duration(compute.mean.value_or(Duration(0))),
      "emulate.base_step, or another distribution");
  judge.refuse_if(!emulated && !compute.mean && !c.emulate.base_step, {"simulate.compute.distribution"},
                  "a distribution without a mean", "no simulate.compute.mean and no emulate.base_step",
                  "simulate.compute.mean to be a duration");
  check_virtual_time(judge, c);
  judge.refuse_if(compute.distribution == ComputeKind::kNormal && compute.cv > 0.3,
                  {"simulate.compute.cv", "simulate.compute.distribution"},
                  "so wide a normal distribution is often below 0", real({}).write(compute.cv),
                  "at most 0.3, or lognormal or gamma");
  for (std::size_t i = 0; i < c.simulate.events.size(); ++i) {
    const std::string key = "simulate.events[" + std::to_string(i) + "]";
    judge.refuse_if(c.simulate.events[i].node >= c.cluster.nodes, {key.c_str(), "cluster.nodes"},
                    "there is no such node", "node " + std::to_string(c.simulate.events[i].node),
                    "0 to " + std::to_string(c.cluster.nodes - 1));
  }
  judge.refuse_if(!c.simulate.metric.curve.empty() && c.simulate.metric.final_accuracy.has_value(),
                  {"simulate.metric.final_accuracy", "simulate.metric.curve"}, "two curves for one metric",
                  "a curve and a final_accuracy", "one of them");
  const bool trains = c.simulate.mode == SimulateMode::kTraining;
  judge.refuse_if(trains && !c.simulate.metric.curve.empty(), {"simulate.metric.curve", "simulate.mode"},
                  "training mode measures the metric", "a curve", "none, or mode: timing");
  judge.refuse_if(trains && c.simulate.metric.final_accuracy.has_value(),
                  {"simulate.metric.final_accuracy", "simulate.mode"}, "training mode measures the metric",
                  "a final_accuracy", "none, or mode: timing");
}

// A threshold under bsp would be silently ignored; better to say so.
void check_applies(Judge& judge, const RunConfig& c) {
  for (const Key& key : schema().keys) {
    judge.refuse_if(!key.applies(c) && judge.given().has(key.path), {key.path.c_str()},
                    std::string("policy ") + name_of(c.sync.policy) + " does not use it", "a value",
                    "none or null (" + key.words.fallback + ")");
  }
}

// Keys that only some of the kinds beside them read. Their defaults stand in every written configuration,
// whatever the kind, and say nothing.
struct Reader {
  const char* key;
  bool (*reads)(const RunConfig&);
  const char* who;
};
template <OptimizerKind kind>
bool optimizer_is(const RunConfig& c) {
  return c.train.optimizer.kind == kind;
}
template <ScheduleKind kind>
bool schedule_is(const RunConfig& c) {
  return c.train.optimizer.schedule.kind == kind;
}
bool compensates(const RunConfig& c) {
  return c.train.optimizer.delay_compensation.kind != CompensationKind::kNone;
}
bool adapts(const RunConfig& c) {
  return c.train.optimizer.delay_compensation.kind == CompensationKind::kAdaptive;
}
bool decays(const RunConfig& c) { return c.train.optimizer.weight_decay > 0; }
bool steered_by_progress(const RunConfig& c) { return follows_progress(c.sync); }
bool jitters(const RunConfig& c) { return c.emulate.jitter != JitterKind::kNone; }
bool varies(const RunConfig& c) {
  const ComputeKind kind = c.simulate.compute.distribution;
  return kind == ComputeKind::kNormal || kind == ComputeKind::kLognormal || kind == ComputeKind::kGamma;
}
bool is_pareto(const RunConfig& c) { return c.simulate.compute.distribution == ComputeKind::kPareto; }
bool has_slow_periods(const RunConfig& c) { return c.simulate.compute.slow_share > 0; }
bool has_pauses(const RunConfig& c) { return c.simulate.compute.pause_every.has_value(); }
bool approaches(const RunConfig& c) { return c.simulate.metric.final_accuracy.has_value(); }
bool has_metric(const RunConfig& c) { return approaches(c) || !c.simulate.metric.curve.empty(); }
bool has_noise(const RunConfig& c) { return c.simulate.metric.noise != MetricNoise::kNone; }

constexpr double kAdaptiveLambda = 2.0;  // where none is given

const Reader kReaders[] = {
    {"sync.lpr.increase_above", steered_by_progress, "policy: dtssp"},
    {"sync.lpr.decrease_below", steered_by_progress, "policy: dtssp"},
    {"train.optimizer.momentum", optimizer_is<OptimizerKind::kMomentum>, "kind: momentum"},
    {"train.optimizer.beta1", optimizer_is<OptimizerKind::kAdam>, "kind: adam"},
    {"train.optimizer.beta2", optimizer_is<OptimizerKind::kAdam>, "kind: adam"},
    {"train.optimizer.epsilon", optimizer_is<OptimizerKind::kAdam>, "kind: adam"},
    {"train.optimizer.decoupled", decays, "a weight_decay above 0"},
    {"train.optimizer.delay_compensation.lambda", compensates, "kind: constant or adaptive"},
    {"train.optimizer.delay_compensation.decay", adapts, "kind: adaptive"},
    {"train.optimizer.schedule.step_versions", schedule_is<ScheduleKind::kStep>, "kind: step"},
    {"train.optimizer.schedule.step_factor", schedule_is<ScheduleKind::kStep>, "kind: step"},
    {"train.optimizer.schedule.total_versions", schedule_is<ScheduleKind::kCosine>, "kind: cosine"},
    {"train.optimizer.schedule.final_factor", schedule_is<ScheduleKind::kCosine>, "kind: cosine"},
    {"emulate.jitter_spread", jitters, "a jitter"},
    {"simulate.compute.cv", varies, "distribution: normal, lognormal or gamma"},
    {"simulate.compute.shape", is_pareto, "distribution: pareto"},
    {"simulate.compute.slow_length", has_slow_periods, "a slow_share above 0"},
    {"simulate.compute.slow_factor", has_slow_periods, "a slow_share above 0"},
    {"simulate.compute.pause_length", has_pauses, "a pause_every"},
    {"simulate.metric.initial_accuracy", approaches, "a final_accuracy"},
    {"simulate.metric.final_loss", approaches, "a final_accuracy"},
    {"simulate.metric.initial_loss", approaches, "a final_accuracy"},
    {"simulate.metric.half_samples", approaches, "a final_accuracy"},
    {"simulate.metric.noise", has_metric, "a curve or a final_accuracy"},
    {"simulate.metric.loss_deviation", has_metric, "a curve or a final_accuracy"},
    {"simulate.metric.loss_deviation", has_noise, "noise: binomial"},
};

void check_readers(Judge& judge, const RunConfig& c) {
  static const RunConfig defaults;
  for (const Reader& reader : kReaders) {
    const Key* key = schema().find(reader.key);
    const std::string got = key->write(c);
    const bool given = judge.given().has(reader.key) && got != key->write(defaults);
    judge.refuse_if(given && !reader.reads(c), {reader.key}, "nobody reads it", got,
                    std::string(reader.who) + ", or no value");
  }
}

}  // namespace

std::string Given::first(std::initializer_list<const char*> keys) const {
  for (const char* key : keys) {
    if (has(key)) return key;
  }
  return *keys.begin();
}

Place Given::place_of(const std::string& key) const {
  const auto at = places_.find(key);
  return at == places_.end() ? Place{source_, 1} : at->second;
}

void resolve(RunConfig& config, const Given& given) {
  SyncSection& sync = config.sync;
  if (!given.has("sync.apply")) {
    const bool asp = sync.policy == PolicyKind::kAsp ||
                     std::any_of(sync.stages.begin(), sync.stages.end(),
                                 [](const PolicyStage& stage) { return stage.policy == PolicyKind::kAsp; });
    sync.apply = asp ? ApplyMode::kEager : ApplyMode::kVersioned;
  }
  if (!given.has("sync.combine")) {
    sync.combine = sync.apply == ApplyMode::kEager ? CombineMode::kEach : CombineMode::kMean;
  }
  CompensationSection& compensation = config.train.optimizer.delay_compensation;
  if (adapts(config) && !given.has("train.optimizer.delay_compensation.lambda")) {
    compensation.lambda = kAdaptiveLambda;
  }
}

Status validate(const RunConfig& config, const Given& given) {
  Judge judge(given);
  check_applies(judge, config);
  check_run(judge, config);
  check_cluster(judge, config.cluster);
  check_encoding(judge, config.cluster);
  check_stages(judge, config);
  check_application(judge, config.sync);
  check_threshold(judge, config.sync);
  check_backups(judge, config);
  check_batches(judge, config);
  check_network(judge, config.train);
  check_optimizer(judge, config);
  check_compensation(judge, config);
  check_data(judge, config.data);
  check_emulation(judge, config);
  check_simulation(judge, config);
  check_readers(judge, config);
  return judge.verdict();
}

}  // namespace paceline::config
