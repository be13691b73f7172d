// What the tests of the CUDA back end share, on a real GPU and on the fake one.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/model_fixture.h"
#include "worker/model/cuda/open_gpus.h"

namespace paceline {

inline std::unique_ptr<NetworkBackend> cuda_backend_of(const NetworkSpec& network, std::int64_t batch_size,
                                                       Precision precision = Precision::kFp32,
                                                       std::uint64_t seed = 5) {
  const auto gpus = cuda::open_gpus({{}, precision});
  INFO(gpus.status().message());
  REQUIRE(gpus.is_ok());
  const auto make = (*gpus)->for_thread(0);
  INFO(make.status().message());
  REQUIRE(make.is_ok());
  auto backend = (*make)(network, batch_size, seed);
  INFO(backend.status().message());
  REQUIRE(backend.is_ok());
  return std::move(backend).value();
}

inline NetworkSpec ready_made(const std::string& model, double rate) {
  TrainSection train;
  train.model = model;
  train.dropout = rate;
  return build_network(train).value();
}

// Gradient and evaluation of a mini-batch of `samples` on a back end built for `built_for`: relative L2 of
// each tensor within `tolerance` of the reference back end's.
inline void check_cuda_against_reference(const NetworkSpec& network, std::int64_t built_for,
                                         std::int64_t samples, std::uint64_t seed, double tolerance,
                                         Precision precision = Precision::kFp32) {
  const RandomBatch batch(network, samples, seed);
  const std::vector<float> parameters = random_parameters(network, seed);
  const auto reference = backend_of(Backend::kReference, network, samples);
  const auto cuda = cuda_backend_of(network, built_for, precision);
  std::vector<float> expected(parameters.size());
  std::vector<float> got(parameters.size(),
                         std::numeric_limits<float>::quiet_NaN());  // must be written whole
  const auto expected_metric = reference->gradient(parameters, batch.all(), expected, whole_at_the_end);
  const auto got_metric = cuda->gradient(parameters, batch.all(), got, whole_at_the_end);
  REQUIRE(expected_metric.is_ok());
  INFO(got_metric.status().message());
  REQUIRE(got_metric.is_ok());
  CHECK(got_metric->samples == samples);
  CHECK(got_metric->loss_sum == Approx(expected_metric->loss_sum).epsilon(tolerance));
  for (const Tensor& tensor : network.layout.tensors()) {
    INFO(tensor.name);
    CHECK(relative_l2(got, expected, tensor.offset, tensor.size()) < tolerance);
  }
  const auto expected_evaluation = reference->evaluate(parameters, batch.all());
  const auto got_evaluation = cuda->evaluate(parameters, batch.all());
  REQUIRE(got_evaluation.is_ok());
  CHECK(got_evaluation->loss_sum == Approx(expected_evaluation->loss_sum).epsilon(tolerance));
  if (precision != Precision::kFp32) return;  // two logits may be nearer to each other than its rounding
  CHECK(got_metric->correct == expected_metric->correct);
  CHECK(got_evaluation->correct == expected_evaluation->correct);
}

// Every kind of layer, in the combinations that the program treats specially; over images of 3 x 12 x 10.
inline std::vector<std::vector<LayerConfig>> cuda_networks() {
  return {
      {dense(10)},
      {flatten(), dense(20), dense(10)},
      {conv(16, 3), dense(10)},
      {conv(5, 3, 2, 2), conv(7, 2, 1, 0), dense(10)},
      {conv(16, 3), relu(), conv(8, 3), relu(), dense(10)},              // ReLU with the bias
      {conv(16, 3), flatten(), relu(), dense(10)},                       // seen through a flatten
      {conv(16, 3), relu(), pool(2), relu(), pool(3, 2, 1), dense(10)},  // ReLU of its own; windows overlap
      {conv(16, 3), pool(2), pool(2), conv(16, 3), pool(3, 1, 1), dense(10)},
      {conv(5, 2), conv(4, 3), dense(10)},  // 65 floats in front: not aligned
      {conv(6, 3), pool(2, 3), dense(10)},  // some of the input is in no window
      {relu(), conv(4, 3), dense(10)},      // nothing goes back to the images
      {dropout(0.2), conv(4, 3), dense(10)},
      {pool(2), conv(16, 3), relu(), relu(), dense(12), relu(), relu(), dense(10)},
      {conv(20, 3), dropout(0.3), relu(), pool(2), dropout(0.1), flatten(), dense(10)},
      {conv(16, 3), relu(), dropout(0.3), pool(2), dense(16), dropout(0.2), relu(), dropout(0.2), dense(10)},
      {conv(3, 3), dropout(0.4), dense(7), dropout(0.5), dense(10)},  // sizes that are no multiple of four
  };
}

}  // namespace paceline
