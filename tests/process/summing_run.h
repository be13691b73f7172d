// Runs whose nodes sum their gradients among themselves, and what each of their nodes computed with.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/process/network_run.h"
#include "tests/unit/recorded_training.h"
#include "tests/unit/training_fixture.h"

namespace paceline::test {

using schedule::Algorithm;

inline RunConfig summing(Algorithm algorithm, std::uint32_t nodes, std::uint32_t threads = 1) {
  RunConfig config = with_policy(training_config(nodes, threads), PolicyKind::kBsp, ApplyMode::kVersioned,
                                 CombineMode::kMean);
  config.exchange.kind = ExchangeKind::kAllreduce;
  config.exchange.algorithm = algorithm;
  config.exchange.bucket_bytes = 512;
  config.train.optimizer.kind = OptimizerKind::kMomentum;
  config.train.optimizer.schedule.kind = ScheduleKind::kCosine;
  return config;
}

inline RunConfig with_servers(RunConfig config) {
  config.exchange = {};
  return config;
}

// What each node computes with, by node; one thread each.
class Records {
 public:
  explicit Records(std::uint32_t nodes) : tasks_(nodes) {}
  std::unique_ptr<TaskFactory> make(const RunConfig& config, NodeId node) {
    tasks_[node.value] = std::make_shared<std::vector<std::vector<float>>>();
    return std::make_unique<Recording>(config, tasks_[node.value]);
  }
  const std::vector<std::vector<float>>& of(std::size_t node) const { return *tasks_[node]; }

 private:
  using Kept = std::shared_ptr<std::vector<std::vector<float>>>;
  // Outlived by what it has recorded.
  class Recording final : public RecordingTasks {
   public:
    Recording(const RunConfig& config, Kept kept) : RecordingTasks(config), kept_(std::move(kept)) {}
    ~Recording() override {
      for (const Read& read : reads()) kept_->push_back(read.parameters);
    }

   private:
    Kept kept_;
  };
  std::vector<Kept> tasks_;
};

}  // namespace paceline::test
