// The built-in network's tasks, and tasks around others, which pass on all that they are asked: a test overrides what
// it changes.
#pragma once

#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/config/run_config.h"
#include "common/task/task.h"
#include "worker/network_task.h"

namespace paceline::testing {

inline std::unique_ptr<TaskFactory> network_tasks(const RunConfig& config) {
  auto tasks = make_network_tasks(config);
  REQUIRE(tasks.is_ok());
  return std::move(tasks).value();
}

class WrappedTask : public Task {
 public:
  explicit WrappedTask(std::unique_ptr<Task> task) : task_(std::move(task)) {}
  Result<std::unique_ptr<CacheVectors>> make_cache_vectors(const OptimizerSection& optimizer,
                                                           std::int64_t floats) override {
    return task_->make_cache_vectors(optimizer, floats);
  }
  Status load(const Step& step) override { return task_->load(step); }
  Result<Metric> compute(std::span<const float> parameters, std::span<float> gradient,
                         const FinalFrom& final_from) override {
    return task_->compute(parameters, gradient, final_from);
  }
  LossScale loss_scale() const override { return task_->loss_scale(); }
  std::chrono::nanoseconds waited() const override { return task_->waited(); }
  Result<Metric> evaluate(std::span<const float> parameters) override { return task_->evaluate(parameters); }

 private:
  const std::unique_ptr<Task> task_;
};

// Not trainers_are_alike(): each worker has a task of its own. Thread: as TaskFactory, and `wrap` as make_trainer().
class WrappedTasks : public TaskFactory {
 public:
  using Wrap = std::function<std::unique_ptr<Task>(std::unique_ptr<Task> trainer, WorkerId worker)>;
  WrappedTasks(std::unique_ptr<TaskFactory> tasks, Wrap wrap)
      : tasks_(std::move(tasks)), wrap_(std::move(wrap)) {}
  const Layout& layout() const override { return tasks_->layout(); }
  Range trained_by(NodeId node) const override { return tasks_->trained_by(node); }
  void meet(std::shared_ptr<PeerChannels> peers) override { tasks_->meet(std::move(peers)); }
  std::vector<PeerBounds> peer_bounds(NodeId node) const override { return tasks_->peer_bounds(node); }
  void record_passes(schedule::PassSpans* into) override { tasks_->record_passes(into); }
  StageReport stage_report() const override { return tasks_->stage_report(); }
  std::uint64_t data_fingerprint() const override { return tasks_->data_fingerprint(); }
  void initialize(std::span<float> parameters) const override { tasks_->initialize(parameters); }
  Result<std::unique_ptr<Task>> make_trainer(WorkerId worker) override {
    PACELINE_ASSIGN_OR_RETURN(auto task, tasks_->make_trainer(worker));
    return wrap_(std::move(task), worker);
  }
  std::string computes_on(std::uint32_t thread) const override { return tasks_->computes_on(thread); }
  std::shared_ptr<std::pmr::memory_resource> gradient_memory(
      std::shared_ptr<std::pmr::memory_resource> upstream) override {
    return tasks_->gradient_memory(std::move(upstream));
  }
  std::shared_ptr<std::pmr::memory_resource> parameter_memory() override {
    return tasks_->parameter_memory();
  }
  Result<std::shared_ptr<void>> pin(std::span<const std::byte> pages) override { return tasks_->pin(pages); }
  Result<std::unique_ptr<Task>> make_evaluator() override { return tasks_->make_evaluator(); }
  void stop_evaluating() override { tasks_->stop_evaluating(); }
  void warn_to(std::function<void(const std::string&)> warn) override { tasks_->warn_to(std::move(warn)); }
  std::int64_t samples_left_out(NodeId node) const override { return tasks_->samples_left_out(node); }

 private:
  const std::unique_ptr<TaskFactory> tasks_;
  const Wrap wrap_;
};

}  // namespace paceline::testing
