// A Task that computes nothing: its gradient is whatever the buffer holds. What is left of a step is the
// exchange, so a run of it measures the parameter path alone. It times itself: from the load() of the first
// step after the warm-up to that of the last step.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "common/task/task.h"

namespace paceline::bench {

// What the training threads of this process measured. Thread: any.
class StepTimes {
 public:
  explicit StepTimes(std::int64_t warm_up_steps) : warm_up_steps_(warm_up_steps) {}

  void step_begins(Clock clock);
  // Mean seconds from the beginning of a step to that of the next one, over the threads; 0 without any.
  double seconds_per_step() const;
  // When each step after the warm-up began, in order. For one thread.
  std::vector<std::chrono::steady_clock::time_point> begins() const;

 private:
  using Time = std::chrono::steady_clock::time_point;
  const std::int64_t warm_up_steps_;
  mutable std::mutex mutex_;
  std::int64_t threads_ = 0;
  std::vector<Time> begins_;  // of all threads
};

// A vector of `floats` parameters in tensors of at most 1 Mi floats, all zero.
class NoComputeTasks final : public TaskFactory {
 public:
  NoComputeTasks(std::int64_t floats, StepTimes& times);

  const Layout& layout() const override { return layout_; }
  void initialize(std::span<float> parameters) const override;
  Result<std::unique_ptr<Task>> make_trainer(WorkerId worker) override;
  Result<std::unique_ptr<Task>> make_evaluator() override;

 private:
  Layout layout_;
  StepTimes& times_;
};

}  // namespace paceline::bench
