#include "examples/own_task/linear_task.h"

#include <algorithm>
#include <cmath>

#include "common/random.h"

namespace example {
namespace {

using paceline::Metric;

constexpr std::int64_t kTestSamples = 1000;
constexpr double kNoise = 0.01;
// A prediction this close counts as correct, so that `accuracy` means something here too.
constexpr float kCloseEnough = 0.1F;

float predict(std::span<const float> parameters, const Sample& sample) {
  float prediction = parameters[kFeatures];
  for (std::size_t i = 0; i < kFeatures; ++i) prediction += parameters[i] * sample.x[i];
  return prediction;
}

float error_of(std::span<const float> parameters, const Sample& sample) {
  return predict(parameters, sample) - sample.y;
}

void count(float error, Metric& metric) {
  metric.loss_sum += 0.5 * error * error;
  metric.correct += std::abs(error) < kCloseEnough ? 1 : 0;
  metric.samples += 1;
}

}  // namespace

Sample make_sample(std::uint64_t seed, Split split, std::int64_t index) {
  paceline::CounterRandom random(seed, paceline::Stream::kSyntheticData, static_cast<std::uint64_t>(split),
                                 static_cast<std::uint64_t>(index));
  Sample sample;
  for (float& x : sample.x) x = static_cast<float>(random.next_normal());
  sample.y = predict(kTruth, sample) + static_cast<float>(kNoise * random.next_normal());
  return sample;
}

paceline::Status LinearTask::load(const paceline::Step& step) {
  // The step says which samples are this worker's: nobody else gets them (common/task/task.h).
  batch_.clear();
  for (std::int64_t i = 0; i < step.batch.samples; ++i) {
    batch_.push_back(make_sample(seed_, Split::kTrain, step.batch.position + i));
  }
  return paceline::Status::ok();
}

// A sum over samples is final with the last of them, so there is nothing to say before the end.
paceline::Result<Metric> LinearTask::compute(std::span<const float> parameters, std::span<float> gradient,
                                             const paceline::FinalFrom&) {
  std::fill(gradient.begin(), gradient.end(), 0.0F);
  Metric metric;
  const float weight = 1.0F / static_cast<float>(batch_.size());
  for (const Sample& sample : batch_) {
    const float error = error_of(parameters, sample);
    for (std::size_t i = 0; i < kFeatures; ++i) gradient[i] += weight * error * sample.x[i];
    gradient[kFeatures] += weight * error;
    count(error, metric);
  }
  return metric;
}

paceline::Result<Metric> LinearTask::evaluate(std::span<const float> parameters) {
  Metric metric;
  for (std::int64_t i = 0; i < kTestSamples; ++i)
    count(error_of(parameters, make_sample(seed_, Split::kTest, i)), metric);
  return metric;
}

LinearTasks::LinearTasks(std::uint64_t seed) : seed_(seed) {
  PACELINE_ASSERT(layout_.add("weights", {kFeatures}).is_ok() && layout_.add("bias", {1}).is_ok(),
                  "two names");
}

void LinearTasks::initialize(std::span<float> parameters) const {
  std::fill(parameters.begin(), parameters.end(), 0.0F);
}

paceline::Result<std::unique_ptr<paceline::Task>> LinearTasks::make_trainer(paceline::WorkerId) {
  return std::unique_ptr<paceline::Task>(std::make_unique<LinearTask>(seed_));
}

paceline::Result<std::unique_ptr<paceline::Task>> LinearTasks::make_evaluator() {
  return std::unique_ptr<paceline::Task>(std::make_unique<LinearTask>(seed_));
}

}  // namespace example
