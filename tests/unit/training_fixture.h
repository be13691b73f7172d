// Simulated training runs of tests: a tiny network on a generated data set, workers of unequal speeds.
#pragma once

#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "common/config/run_config.h"
#include "simulate/run.h"
#include "tests/unit/temp_folder.h"
#include "worker/data/synthetic.h"

namespace paceline::test {

// A generated data set for all cases of a program; odd in number, so that mini-batches straddle epochs.
inline const std::string& training_data() {
  static const testing::TempFolder folder;
  static const Status written = [] {
    SyntheticOptions options;
    options.out = folder.path() / "data";
    options.train_samples = 105;
    options.test_samples = 20;
    return write_synthetic(options);
  }();
  INFO(written.message());
  REQUIRE(written.is_ok());
  static const std::string path = (folder.path() / "data").string();
  return path;
}

// Augmentation and dropout on, frames that cut the parameters, computations of 100 ms on the average.
inline RunConfig training_config(std::uint32_t nodes, std::uint32_t threads, std::uint32_t shards = 1) {
  RunConfig config;
  config.run.seed = 7;
  config.cluster.nodes = nodes;
  config.cluster.threads_per_node = threads;
  config.cluster.shards = shards;
  config.cluster.frame_bytes = 4096;
  config.train.backend = Backend::kReference;
  config.train.model = "layers";
  config.train.layers = {{LayerKind::kConv, 2, 5, 2}, {LayerKind::kRelu},
                         {LayerKind::kPool, 0, 4, 4}, {LayerKind::kDropout, 0, 0, 0, -1, 0.25},
                         {LayerKind::kFlatten},       {LayerKind::kDense, 10}};
  config.train.optimizer.kind = OptimizerKind::kSgd;
  config.train.optimizer.lr = 0.05;
  config.train.batch_size = 4;
  config.train.total_iterations = 20 * config.cluster.cluster().workers();
  config.data.path = training_data();
  config.data.augment = true;
  config.simulate.mode = SimulateMode::kTraining;
  config.simulate.compute.distribution = ComputeKind::kLognormal;
  config.simulate.compute.mean = std::chrono::milliseconds(100);
  config.simulate.compute.cv = 0.8;
  config.simulate.network.latency = std::chrono::milliseconds(1);
  return config;
}

// With a batch norm of many values of a channel in each sample, and one of a single value; momentum.
inline RunConfig with_batch_norms(RunConfig config, std::uint32_t group) {
  config.train.batch_norm_group = group;
  config.train.layers = {{.kind = LayerKind::kConv, .out = 4, .kernel = 5, .stride = 2, .bias = false},
                         {.kind = LayerKind::kBatchNorm},
                         {.kind = LayerKind::kRelu},
                         {.kind = LayerKind::kGlobalAveragePool},
                         {.kind = LayerKind::kBatchNorm},
                         {.kind = LayerKind::kDense, .out = 10}};
  config.train.optimizer.kind = OptimizerKind::kMomentum;
  return config;
}

inline RunConfig with_policy(RunConfig config, PolicyKind policy, ApplyMode apply = ApplyMode::kVersioned,
                             CombineMode combine = CombineMode::kEach) {
  config.sync.policy = policy;
  config.sync.apply = apply;
  config.sync.combine = combine;
  return config;
}

// Rounds of so many mini-batches, with an inner optimizer that has a state.
inline RunConfig with_local_steps(RunConfig config, std::int64_t local_steps) {
  config.train.local_steps = local_steps;
  config.train.has_inner_optimizer = true;
  config.train.inner_optimizer.kind = OptimizerKind::kMomentum;
  config.train.inner_optimizer.lr = 0.05;
  config.train.inner_optimizer.momentum = 0.5;
  return config;
}

inline simulate::Outcome trained(const RunConfig& config, TaskFactory* tasks = nullptr) {
  Result<simulate::SimulatedRun> run = simulate::simulate(config, {}, tasks);
  if (!run) FAIL(run.status().message());
  return std::move(run).value().outcome;
}

inline bool same_floats(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace paceline::test
