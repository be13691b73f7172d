#include "tests/bench/exchange/no_compute_task.h"

#include <algorithm>
#include <string>

#include "common/assert.h"

namespace paceline::bench {
namespace {

class NoComputeTask final : public Task {
 public:
  explicit NoComputeTask(StepTimes& times) : times_(times) {}

  Status load(const Step& step) override {
    times_.step_begins(step.clock);
    return Status::ok();
  }
  Result<Metric> compute(std::span<const float>, std::span<float>, const FinalFrom&) override {
    return one_sample();
  }
  Result<Metric> evaluate(std::span<const float>) override { return one_sample(); }

 private:
  static Metric one_sample() {
    Metric metric;
    metric.samples = 1;
    return metric;
  }
  StepTimes& times_;
};

}  // namespace

void StepTimes::step_begins(Clock clock) {
  const Time now = std::chrono::steady_clock::now();
  if (clock < Clock(warm_up_steps_)) return;
  const std::lock_guard lock(mutex_);
  if (clock == Clock(warm_up_steps_)) ++threads_;
  begins_.push_back(now);
}

double StepTimes::seconds_per_step() const {
  const std::lock_guard lock(mutex_);
  const std::int64_t steps = static_cast<std::int64_t>(begins_.size()) - threads_;
  if (steps <= 0) return 0.0;
  return std::chrono::duration<double>(begins_.back() - begins_.front()).count() *
         static_cast<double>(threads_) / static_cast<double>(steps);
}

std::vector<std::chrono::steady_clock::time_point> StepTimes::begins() const {
  const std::lock_guard lock(mutex_);
  return begins_;
}

NoComputeTasks::NoComputeTasks(std::int64_t floats, StepTimes& times) : times_(times) {
  constexpr std::int64_t kTensorFloats = 1 << 20;
  for (std::int64_t begin = 0; begin < floats; begin += kTensorFloats) {
    const auto added = layout_.add("tensor" + std::to_string(begin / kTensorFloats),
                                   {std::min(kTensorFloats, floats - begin)});
    PACELINE_ASSERT(added.is_ok(), added.status().message());
  }
}

void NoComputeTasks::initialize(std::span<float> parameters) const {
  std::fill(parameters.begin(), parameters.end(), 0.0F);
}

Result<std::unique_ptr<Task>> NoComputeTasks::make_trainer(WorkerId) {
  return std::unique_ptr<Task>(std::make_unique<NoComputeTask>(times_));
}

Result<std::unique_ptr<Task>> NoComputeTasks::make_evaluator() { return make_trainer({}); }

}  // namespace paceline::bench
