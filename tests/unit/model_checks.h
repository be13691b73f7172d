// How a network's gradients are held against the truth: the reference back end against finite differences, and
// oneDNN's against the reference.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <vector>

#include "tests/unit/model_fixture.h"
#include "worker/model/layers/reference_layer.h"

namespace paceline {

// Values of layers, and whether two are alike.
inline Values noise(std::int64_t n, std::uint64_t seed) {
  CounterRandom random(seed, Stream::kTest, 5);
  Values values(static_cast<std::size_t>(n));
  for (double& value : values) value = random.next_normal();
  return values;
}
inline void check_close(const Values& got, const Values& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(expected[i]).margin(1e-12));
}

inline double mean_loss(NetworkBackend& backend, const std::vector<float>& parameters, const Batch& batch) {
  std::vector<float> ignored(parameters.size());
  const Metric metric = backend.gradient(parameters, batch, ignored, whole_at_the_end).value();
  return metric.loss_sum / static_cast<double>(metric.samples);
}

// (L(p + h) - L(p - h)) / 2h for each parameter. h = 2e-6 is small enough that hardly any ReLU or maximum
// changes sides within it (its own error, of order h^2, is nothing), and large enough that the loss, computed
// in double, loses only about 1e-10 to rounding. Parameters are float: the distance really travelled is what
// is divided by.
inline std::vector<double> finite_differences(NetworkBackend& backend, std::vector<float> parameters,
                                              const Batch& batch) {
  constexpr float kH = 2e-6F;
  std::vector<double> gradient;
  for (float& p : parameters) {
    const float original = p;
    p = original + kH;
    const double up = p;
    const double loss_up = mean_loss(backend, parameters, batch);
    p = original - kH;
    const double down = p;
    const double loss_down = mean_loss(backend, parameters, batch);
    p = original;
    gradient.push_back((loss_up - loss_down) / (up - down));
  }
  return gradient;
}

// Each tensor agrees to 1e-5 of its norm: rounding of the gradient to float is 6e-8, of the difference
// quotient about 1e-10 / 2e-6 / typical gradients of 0.1, that is 5e-7 to 5e-6 for the smallest.
inline void check_gradient(const NetworkSpec& network) {
  const RandomBatch batch(network, 3, 11);
  const std::vector<float> parameters = random_parameters(network, 11);
  const auto backend = backend_of(Backend::kReference, network, 3);
  std::vector<float> gradient(parameters.size());
  REQUIRE(backend->gradient(parameters, batch.all(), gradient, whole_at_the_end).is_ok());
  const std::vector<double> expected = finite_differences(*backend, parameters, batch.all());
  for (const Tensor& tensor : network.layout.tensors()) {
    INFO(tensor.name);
    if (tensor.traits.role == TensorRole::kBuffer) continue;  // it has no gradient
    CHECK(relative_l2(gradient, expected, tensor.offset, tensor.size()) < 1e-5);
  }
}

// Float sums of up to 10^5 terms against double ones: 1e-5 of a tensor's norm leaves a decade. An arg-max
// that flips between near-equal values moves single elements by far more; the norm over a tensor bears it,
// and the inputs are fixed by their seeds.
inline constexpr double kTolerance = 1e-5;

inline void check_against_reference(const NetworkSpec& network, std::int64_t built_for, std::int64_t samples,
                                    std::uint64_t seed) {
  const RandomBatch batch(network, samples, seed);
  const std::vector<float> parameters = random_parameters(network, seed);
  const auto reference = backend_of(Backend::kReference, network, samples);
  const auto onednn = backend_of(Backend::kOnednn, network, built_for);
  std::vector<float> expected(parameters.size());
  std::vector<float> got(parameters.size(),
                         std::numeric_limits<float>::quiet_NaN());  // must be written whole
  const auto expected_metric = reference->gradient(parameters, batch.all(), expected, whole_at_the_end);
  // The second gradient: what an evaluation and the first one have left in the back end's memory changes nothing.
  REQUIRE(onednn->evaluate(parameters, batch.all()).is_ok());
  REQUIRE(onednn->gradient(parameters, batch.all(), got, whole_at_the_end).is_ok());
  std::fill(got.begin(), got.end(), std::numeric_limits<float>::quiet_NaN());
  const auto got_metric = onednn->gradient(parameters, batch.all(), got, whole_at_the_end);
  REQUIRE(expected_metric.is_ok());
  INFO(got_metric.status().message());
  REQUIRE(got_metric.is_ok());
  CHECK(got_metric->loss_sum == Approx(expected_metric->loss_sum).epsilon(kTolerance));
  CHECK(got_metric->correct == expected_metric->correct);
  CHECK(got_metric->samples == samples);
  for (const Tensor& tensor : network.layout.tensors()) {
    INFO(tensor.name);
    CHECK(relative_l2(got, expected, tensor.offset, tensor.size()) < kTolerance);
  }
  const auto expected_evaluation = reference->evaluate(parameters, batch.all());
  const auto got_evaluation = onednn->evaluate(parameters, batch.all());
  CHECK(got_evaluation->loss_sum == Approx(expected_evaluation->loss_sum).epsilon(kTolerance));
  CHECK(got_evaluation->correct == expected_evaluation->correct);
}

}  // namespace paceline
