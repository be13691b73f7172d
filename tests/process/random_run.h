// A random, valid configuration of a short run and random delays in it, all from one seed: what the guarantee
// tests draw their thousands of schedules from.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/config/checks.h"
#include "common/config/names.h"
#include "common/config/run_config.h"
#include "common/random.h"
#include "tests/process/transport.h"

namespace paceline::testing {

// Leases of runs in which something is waited for as long: where connections break, who does not hear the end
// waits for one; who stands still is missed after one. Everybody else has to be scheduled within it, on a
// machine on which forty other programs run.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr std::chrono::seconds kBreakingLease{10};
inline constexpr std::chrono::seconds kStandingLease{15};
#else
inline constexpr std::chrono::seconds kBreakingLease{8};
inline constexpr std::chrono::seconds kStandingLease{5};
#endif

// Keeps the calling thread busy for about `duration`: jitter that changes who arrives first. Not a wait for
// anything.
inline void spin_for(std::chrono::nanoseconds duration) {
  const auto end = std::chrono::steady_clock::now() + duration;
  while (std::chrono::steady_clock::now() < end) {
  }
}

// What the guarantees are asked of: every way to synchronise, on so many shards. The seed walks through them
// in turn, so that any range of seeds has the same number of each; all else is drawn.
struct Combination {
  PolicyKind policy;
  ApplyMode apply;
  std::uint32_t shards;
};
inline constexpr std::array<std::pair<PolicyKind, ApplyMode>, 12> kWays{
    {{PolicyKind::kBsp, ApplyMode::kVersioned},
     {PolicyKind::kAsp, ApplyMode::kEager},
     {PolicyKind::kSsp, ApplyMode::kVersioned},
     {PolicyKind::kSsp, ApplyMode::kEager},
     {PolicyKind::kDtssp, ApplyMode::kVersioned},
     {PolicyKind::kDtssp, ApplyMode::kEager},
     {PolicyKind::kRandomWalk, ApplyMode::kVersioned},
     {PolicyKind::kRandomWalk, ApplyMode::kEager},
     {PolicyKind::kDssp, ApplyMode::kVersioned},
     {PolicyKind::kDssp, ApplyMode::kEager},
     {PolicyKind::kSwitch, ApplyMode::kVersioned},
     {PolicyKind::kSwitch, ApplyMode::kEager}}};
inline constexpr std::uint32_t kShardsMax = 3;
inline constexpr std::size_t kCombinations = kWays.size() * kShardsMax;

inline Combination combination_of(std::uint64_t seed) {
  const auto [policy, apply] = kWays[seed % kWays.size()];
  return {policy, apply, 1 + static_cast<std::uint32_t>(seed / kWays.size() % kShardsMax)};
}

// Encodings in which the small whole numbers of the counting model are exact; those of parameters first.
inline constexpr std::array<Encoding, 4> kExactEncodings{Encoding::kFp32, Encoding::kFp16, Encoding::kBf16,
                                                         Encoding::kTopK};

// Over tcp or over ipc.
inline void draw_transport(std::uint64_t seed, RunConfig& config) {
  CounterRandom random(seed, Stream::kTest, 43);
  config.cluster.endpoints = {random.next_below(2) == 0 ? kAnyPort : "ipc://*"};
}

// Settings of every kind of optimizer under which the counting model counts: the server adds 1 for each
// gradient of -1. SGD's local apply waits until a read needs it; the others' state is updated at once:
// another path through the thread cache. Adam looks at a gradient's sign alone, so the share of a mean is
// lost on it.
inline OptimizerSection counting_optimizer(CounterRandom& random, CombineMode combine) {
  OptimizerSection optimizer;
  optimizer.lr = 1.0;
  if (random.next_below(2) == 0) return optimizer;
  optimizer.kind = OptimizerKind::kMomentum;
  optimizer.momentum = 0.0;
  if (combine == CombineMode::kMean || random.next_below(2) == 0) return optimizer;
  optimizer.kind = OptimizerKind::kAdam;
  optimizer.beta1 = 0.0;
  optimizer.beta2 = 0.0;
  return optimizer;
}

// Three policies: the loosest or the strictest that can go with the way of applying, one with a range, and
// SSP.
inline std::vector<PolicyStage> random_stages(CounterRandom& random, ApplyMode apply) {
  std::vector<PolicyStage> stages(3);
  stages[0].policy = apply == ApplyMode::kEager ? PolicyKind::kAsp : PolicyKind::kBsp;
  stages[1].policy = random.next_below(2) == 0 ? PolicyKind::kDtssp : PolicyKind::kDssp;
  stages[2].policy = PolicyKind::kSsp;
  for (PolicyStage& stage : stages) {
    stage.threshold_min = static_cast<std::int64_t>(random.next_below(2));
    stage.threshold = stage.threshold_min + static_cast<std::int64_t>(random.next_below(3));
    stage.threshold_max = stage.threshold + static_cast<std::int64_t>(random.next_below(3));
  }
  if (random.next_below(2) == 0) std::swap(stages[0], stages[2]);
  stages[0].until = {StageEnd::kVersion, 1.0 + static_cast<double>(random.next_below(4))};
  stages[1].until = {StageEnd::kProgress, 0.4 + 0.5 * random.next_double()};
  return stages;
}

inline bool turns_eager(const SyncSection& sync) {
  return sync.apply == ApplyMode::kVersioned && is_ever_eager(sync.stages, sync.apply);
}

// Where a run averages and then turns eager, the learning rate is at first as many times as large as there
// are workers: one step counts one for each of them, as each step does later. To be called again when either
// has changed.
inline void scale_stages(RunConfig& config) {
  SyncSection& sync = config.sync;
  const bool scaled = turns_eager(sync) && sync.combine == CombineMode::kMean;
  for (std::size_t i = 0; i < sync.stages.size(); ++i) {
    const bool averages = scaled && apply_in(sync.stages, sync.apply, i) == ApplyMode::kVersioned;
    sync.stages[i].lr_scale = averages ? config.cluster.cluster().workers() : 1.0;
  }
}

// Half of the switches that begin versioned turn eager, at their second policy or at their third.
inline void draw_turn(std::uint64_t seed, RunConfig& config) {
  CounterRandom random(seed, Stream::kTest, 45);
  SyncSection& sync = config.sync;
  if (sync.policy != PolicyKind::kSwitch || sync.apply == ApplyMode::kEager || random.next_below(2) == 0) {
    return;
  }
  const std::size_t first = 1 + random.next_below(2);
  if (random.next_below(2) == 0 || sync.stages[2].policy == PolicyKind::kBsp) {
    sync.stages[2] = PolicyStage();
    sync.stages[2].policy = PolicyKind::kAsp;
    if (!sync.refresh_clocks) sync.refresh_clocks = 1;
  }
  if (sync.stages[first].policy != PolicyKind::kAsp) sync.stages[first].apply = ApplyMode::kEager;
  scale_stages(config);
}

// One run of four has rounds of several local steps, which count one together (counting_task.h). Drawn from
// elsewhere, so that the others stay what they were.
inline void draw_local_steps(std::uint64_t seed, RunConfig& config) {
  CounterRandom random(seed, Stream::kTest, 47);
  if (random.next_below(4) != 0) return;
  config.exchange.hidden =
      config::grants_ahead(config.sync) && CounterRandom(seed, Stream::kTest, 48).next_below(4) != 0;
  TrainSection& train = config.train;
  train.local_steps = random.next_below(2) == 0 ? 2 : 4;
  train.has_inner_optimizer = true;
  train.inner_optimizer.kind = random.next_below(2) == 0 ? OptimizerKind::kSgd : OptimizerKind::kMomentum;
  train.inner_optimizer.momentum = 0.0;
  train.inner_optimizer.lr = 1.0 / static_cast<double>(train.local_steps);
  train.total_iterations *= train.local_steps;
}

// One run of seven has a hidden exchange in fragments, where its policy may grant ahead. The seeds walk through them:
// on one thread a node and on several, sent and lent, applied as they come or by version, on one shard and on several.
struct Fragmented {
  bool several_threads = false;
  bool lent = false;
  std::uint32_t fragments = 2;
};
inline std::optional<Fragmented> fragmented(std::uint64_t seed) {
  if (seed % 7 != 3) return std::nullopt;
  return Fragmented{seed / 14 % 2 == 1, seed / 112 % 2 == 1, 2 + static_cast<std::uint32_t>(seed / 28 % 2)};
}

// Of four local steps. Not where a server's step is one whatever the delta; parts of its parameters are sent as they
// are.
inline void hide_in_fragments(std::uint32_t fragments, RunConfig& config) {
  SyncSection& sync = config.sync;
  TrainSection& train = config.train;
  sync.threshold = std::max<std::int64_t>(1, sync.threshold);
  sync.threshold_max =
      std::max({std::int64_t{2}, sync.threshold, sync.threshold_max});  // dssp has two at most else
  if (!config::grants_ahead(sync)) return;
  if (train.optimizer.kind == OptimizerKind::kAdam) train.optimizer = OptimizerSection();
  train.optimizer.lr = 1.0;
  config.exchange.hidden = true;
  config.exchange.fragments = fragments;
  config.cluster.parameter_encoding = Encoding::kFp32;
  // The last round of each worker leaves whole.
  const std::int64_t rounds_min = 4 * std::int64_t{config.cluster.cluster().workers()};
  train.total_iterations = 4 * std::max(rounds_min, train.rounds());
  train.local_steps = 4;
  train.has_inner_optimizer = true;
  train.inner_optimizer.momentum = 0.0;
  train.inner_optimizer.lr = 0.25;
}

// What makes a clock's mean count one for each of `contributors`, in the gradient; 1 where the learning rate
// does (scale_stages()), or nothing is averaged.
inline float gradient_scale(const SyncSection& sync, std::int64_t contributors) {
  const bool scaled = sync.combine == CombineMode::kMean && !turns_eager(sync);
  return scaled ? static_cast<float>(contributors) : 1.0F;
}

inline RunConfig random_run(std::uint64_t seed) {
  CounterRandom random(seed, Stream::kTest, 1);
  const Combination combination = combination_of(seed);
  RunConfig config;
  config.run.seed = seed;
  config.cluster.lease = std::chrono::seconds(30);  // nobody is missed for its silence
  config.cluster.nodes = 1 + static_cast<std::uint32_t>(random.next_below(3));
  config.cluster.threads_per_node = 1 + static_cast<std::uint32_t>(random.next_below(3));
  config.cluster.shards = combination.shards;
  // Small frames, so that a push to a shard is several messages.
  config.cluster.frame_bytes = random.next_below(2) == 0 ? 4 : 512 * 1024;
  config.train.total_iterations =
      config.cluster.cluster().workers() + static_cast<std::int64_t>(random.next_below(60));
  config.train.share = random.next_below(2) == 0 ? Share::kEven : Share::kPool;
  config.train.batch_size = 10;
  if (random.next_below(3) == 0)
    config.train.eval_every_clocks = 1 + static_cast<std::int64_t>(random.next_below(4));

  draw_transport(seed, config);
  CounterRandom encodings(seed, Stream::kTest, 41);
  config.cluster.gradient_encoding = kExactEncodings[encodings.next_below(4)];
  if (config.cluster.gradient_encoding == Encoding::kTopK) config.cluster.top_k_share = 1.0;
  config.cluster.parameter_encoding = kExactEncodings[encodings.next_below(3)];

  SyncSection& sync = config.sync;
  sync.policy = combination.policy;
  const std::int64_t refresh[] = {0, 1, 2, 5};
  const std::int64_t r = refresh[random.next_below(4)];
  sync.refresh_clocks = r == 0 ? std::optional<std::int64_t>() : r;
  if (sync.policy == PolicyKind::kAsp && !sync.refresh_clocks) sync.refresh_clocks = 1;
  sync.apply = combination.apply;
  sync.combine =
      sync.apply == ApplyMode::kEager ? CombineMode::kEach : static_cast<CombineMode>(random.next_below(2));
  config.train.optimizer = counting_optimizer(random, sync.combine);
  sync.threshold = static_cast<std::int64_t>(random.next_below(4));
  sync.threshold_min = 0;
  sync.threshold_max = sync.threshold + static_cast<std::int64_t>(random.next_below(4));
  if (sync.policy == PolicyKind::kSwitch) {
    sync.stages = random_stages(random, sync.apply);
    if (sync.apply == ApplyMode::kEager && !sync.refresh_clocks) sync.refresh_clocks = 1;
  }
  draw_turn(seed, config);
  if (is_ever_eager(sync.stages, sync.apply)) {
    // Not by the cores of the machine that tests.
    const bool ahead = CounterRandom(seed, Stream::kTest, 46).next_below(2) == 0;
    sync.pull_order = ahead ? PullOrder::kBeforePush : PullOrder::kAfterPush;
  }
  sync.lpr.metric = static_cast<LprMetric>(random.next_below(2));
  sync.lpr.window_clocks = 1 + static_cast<std::int64_t>(random.next_below(3));
  draw_local_steps(seed, config);
  if (const auto how = fragmented(seed)) {
    config.cluster.threads_per_node = how->several_threads ? 2 : 1;
    scale_stages(config);
    hide_in_fragments(how->fragments, config);
  }
  return config;
}

// Gradients and parameters are lent: that is what lies in their own memory as float32.
inline void share_memory(RunConfig& config) {
  config.cluster.shared_memory = SharedMemory::kOn;
  config.cluster.gradient_encoding = config.cluster.parameter_encoding = Encoding::kFp32;
  config.cluster.top_k_share.reset();
}

// Of gradients and parameters at least one is lent; the other may come as it was drawn, in fewer bytes. On
// several shards the authority's may be asked by way of somebody who listens, and who sends what he is lent
// (local_cluster.h): then memory is shared with the others alone.
inline void share_some_memory(std::uint64_t seed, RunConfig& config) {
  CounterRandom random(seed, Stream::kTest, 44);
  const ClusterSection drawn = config.cluster;
  share_memory(config);
  const std::uint64_t keeps = random.next_below(3);
  if (keeps == 1) {
    config.cluster.gradient_encoding = drawn.gradient_encoding;
    config.cluster.top_k_share = drawn.top_k_share;
  } else if (keeps == 2) {
    config.cluster.parameter_encoding = drawn.parameter_encoding;
  }
  if (drawn.shards > 1 && random.next_below(2) == 0) config.cluster.shared_memory = SharedMemory::kAuto;
}

// Rows for a vector of some 3000 floats.
inline std::int64_t large_rows(const RunConfig& config) { return 3000 / config.cluster.cluster().workers(); }

// The rows of the counting model for a run of `seed`. In one run of four the vector is so large, and cut into
// such frames, that replies are sent from the shard's own blocks (up to 1 KiB the transport copies): states
// that are leaving, and copy-on-write, take part.
//
// Such runs are what shared memory matters to: in half of them payloads are lent, in the others they are
// sent.
inline std::int64_t random_rows(std::uint64_t seed, RunConfig& config) {
  CounterRandom random(seed, Stream::kTest, 40);
  config.cluster.shared_memory = SharedMemory::kOff;
  const bool in_fragments = config.exchange.fragments > 1;
  const bool lent = in_fragments && fragmented(seed) && fragmented(seed)->lent;
  if (random.next_below(4) != 0 && !lent) return 3;
  config.cluster.frame_bytes = random.next_below(2) == 0 ? 2048 : 4096;
  const bool shares = random.next_below(2) == 0;
  if (lent) share_memory(config);
  if (shares && !in_fragments) share_some_memory(seed, config);
  return large_rows(config);
}

// Whether gradients leave while they are computed.
inline bool pushed_in_parts(std::uint64_t seed) {
  return CounterRandom(seed, Stream::kTest, 42).next_below(2) == 0;
}

inline std::string describe(std::uint64_t seed, const RunConfig& c) {
  return "seed " + std::to_string(seed) + ": " + name_of(c.sync.policy) + " threshold " +
         std::to_string(c.sync.threshold) + (c.sync.apply == ApplyMode::kEager ? " eager" : " versioned") +
         (turns_eager(c.sync) ? " then eager" : "") +
         (c.sync.combine == CombineMode::kMean ? " mean" : " each") + " refresh " +
         (c.sync.refresh_clocks ? std::to_string(*c.sync.refresh_clocks) : "null") + " pull " +
         name_of(c.sync.pull_order) + ", " + std::to_string(c.cluster.nodes) + " nodes x " +
         std::to_string(c.cluster.threads_per_node) + ", " + std::to_string(c.cluster.shards) +
         " shards, frames of " + std::to_string(c.cluster.frame_bytes) + ", gradients " +
         name_of(c.cluster.gradient_encoding) + ", parameters " + name_of(c.cluster.parameter_encoding) +
         ", " + std::to_string(c.train.total_iterations) + " iterations " +
         (c.train.share == Share::kPool ? "pool" : "even") + ", " + name_of(c.train.optimizer.kind) +
         (over_tcp(c) ? ", tcp" : ", ipc") + ", shared memory " + name_of(c.cluster.shared_memory) +
         (pushed_in_parts(seed) ? ", gradients in parts" : "") +
         (c.train.local_steps > 1 ? ", " + std::to_string(c.train.local_steps) + " local steps" : "") +
         (c.exchange.hidden ? ", hidden" : "") +
         (c.exchange.fragments > 1 ? ", " + std::to_string(c.exchange.fragments) + " fragments" : "");
}

}  // namespace paceline::testing
