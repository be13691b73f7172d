// A task of your own, the smallest that learns something: linear regression on numbers it generates itself.
//
//   y = w . x + b + noise      eight features; the loss of a sample is (prediction - y)^2 / 2
//
// Everything Paceline needs to know is in these two classes: which parameters there are (layout), where they
// start (initialize), and how a mini-batch becomes a gradient (load, compute) and a metric (evaluate).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/task/task.h"

namespace example {

inline constexpr std::size_t kFeatures = 8;

// What the regression should find: weights, then the bias.
inline constexpr std::array<float, kFeatures + 1> kTruth = {1.0F,  -2.0F, 0.5F,   3.0F, 0.0F,
                                                            -1.5F, 2.0F,  -0.25F, 4.0F};

struct Sample {
  std::array<float, kFeatures> x{};
  float y = 0.0F;
};
enum class Split : std::uint32_t { kTrain = 0, kTest = 1 };
// Sample `index` of an endless data set: a pure function of its arguments, so that no node needs a file.
Sample make_sample(std::uint64_t seed, Split split, std::int64_t index);

class LinearTask final : public paceline::Task {
 public:
  explicit LinearTask(std::uint64_t seed) : seed_(seed) {}

  paceline::Status load(const paceline::Step& step) override;
  paceline::Result<paceline::Metric> compute(std::span<const float> parameters, std::span<float> gradient,
                                             const paceline::FinalFrom& final_from) override;
  paceline::Result<paceline::Metric> evaluate(std::span<const float> parameters) override;

 private:
  std::uint64_t seed_;
  std::vector<Sample> batch_;
};

class LinearTasks final : public paceline::TaskFactory {
 public:
  explicit LinearTasks(std::uint64_t seed);

  const paceline::Layout& layout() const override { return layout_; }
  void initialize(std::span<float> parameters) const override;
  paceline::Result<std::unique_ptr<paceline::Task>> make_trainer(paceline::WorkerId worker) override;
  paceline::Result<std::unique_ptr<paceline::Task>> make_evaluator() override;

 private:
  std::uint64_t seed_;
  paceline::Layout layout_;
};

}  // namespace example
