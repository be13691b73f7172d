// What the tests of the CUDA back end share, on a real GPU and on the fake one.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/model_fixture.h"
#include "worker/model/cuda/open_gpus.h"
#include "worker/model/reference.h"

namespace paceline {

inline std::unique_ptr<NetworkBackend> cuda_backend_of(const NetworkSpec& network, std::int64_t batch_size,
                                                       Precision precision = Precision::kFp32,
                                                       std::uint64_t seed = 5,
                                                       NormGroup* norm_group = nullptr) {
  const auto gpus = cuda::open_gpus({{}, precision});
  INFO(gpus.status().message());
  REQUIRE(gpus.is_ok());
  const auto make = (*gpus)->for_thread(0, norm_group);
  INFO(make.status().message());
  REQUIRE(make.is_ok());
  auto backend = make->make_backend(network, batch_size, seed);
  INFO(backend.status().message());
  REQUIRE(backend.is_ok());
  return std::move(backend).value();
}

// Two convolutions, of which one is pooled and dropped from, and a dense layer; 3 x 8 x 8, five classes.
inline NetworkSpec small_network() {
  return network_of({conv(4, 3), relu(), pool(2), dropout(0.2), conv(3, 3), relu(), dense(5)}, {3, 8, 8}, 5);
}

inline NetworkSpec ready_made(const std::string& model, double rate) {
  TrainSection train;
  train.model = model;
  train.dropout = rate;
  return build_network(train).value();
}

// What CUDA computes with, and what the reference is that it is held to.
struct Beside {
  Precision precision = Precision::kFp32;
  Activations activations = Activations::kDouble;
};

// Gradient and evaluation of one draw of parameters and mini-batch, by the reference and by CUDA.
class CudaBesideReference {
 public:
  CudaBesideReference(const NetworkSpec& network, std::int64_t built_for, std::int64_t samples,
                      std::uint64_t seed, const Beside& beside)
      : network_(network), precision_(beside.precision) {
    const RandomBatch batch(network, samples, seed);
    const std::vector<float> parameters = random_parameters(network, seed);
    const auto reference = std::move(make_reference_backend(network, samples, 5, beside.activations)).value();
    const auto cuda = cuda_backend_of(network, built_for, beside.precision);
    expected_.resize(parameters.size());
    got_.assign(parameters.size(), std::numeric_limits<float>::quiet_NaN());  // must be written whole
    training_ = {value_of(reference->gradient(parameters, batch.all(), expected_, whole_at_the_end)),
                 value_of(cuda->gradient(parameters, batch.all(), got_, whole_at_the_end))};
    evaluation_ = {value_of(reference->evaluate(parameters, batch.all())),
                   value_of(cuda->evaluate(parameters, batch.all()))};
    CHECK(training_.got.samples == samples);
  }

  // Relative L2 of each tensor within `tolerance`.
  void check(double tolerance) const {
    for (const Tensor& tensor : network_.layout.tensors()) {
      INFO(tensor.name);
      CHECK(difference(tensor) < tolerance);
    }
    for (const Metrics& metrics : {training_, evaluation_}) {
      CHECK(metrics.got.loss_sum == Approx(metrics.expected.loss_sum).epsilon(tolerance));
      if (precision_ != Precision::kFp32)
        continue;  // two logits may be nearer to each other than its rounding
      CHECK(metrics.got.correct == metrics.expected.correct);
    }
  }

  // Whether the last layer's gradient is within `tolerance`, and one in front of it is not but within a
  // tenth: a ReLU, or a pool's largest, that was within rounding of its kink and fell to the other side.
  bool something_flipped(double tolerance) const {
    double worst = 0.0;
    for (const Tensor& tensor : network_.layout.tensors()) worst = std::max(worst, difference(tensor));
    return difference(network_.layout.tensors().back()) < tolerance && worst >= tolerance && worst < 0.1;
  }

 private:
  struct Metrics {
    Metric expected;
    Metric got;
  };

  static Metric value_of(const Result<Metric>& metric) {
    INFO(metric.status().message());
    REQUIRE(metric.is_ok());
    return *metric;
  }
  double difference(const Tensor& tensor) const {
    return relative_l2(got_, expected_, tensor.offset, tensor.size());
  }

  const NetworkSpec& network_;
  const Precision precision_;
  std::vector<float> expected_;
  std::vector<float> got_;
  Metrics training_;
  Metrics evaluation_;
};

// Of a mini-batch of `samples`, on a back end built for `built_for`: relative L2 of each tensor within
// `tolerance` of the reference back end's. Of a large network one of ten draws or so flips something: as many
// as `draws` are made until one does not.
inline void check_cuda_against_reference(const NetworkSpec& network, std::int64_t built_for,
                                         std::int64_t samples, std::uint64_t seed, double tolerance,
                                         const Beside& beside = {}, int draws = 1) {
  for (int draw = 1; draw <= draws; ++draw) {
    INFO("draw " << draw);
    const CudaBesideReference one(network, built_for, samples, seed + 1000 * (draw - 1), beside);
    if (draw < draws && one.something_flipped(tolerance)) {
      WARN("draw " << draw << " of seed " << seed << ": something flipped");
      continue;
    }
    return one.check(tolerance);
  }
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

inline LayerConfig average_pool(std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                                WindowEnd end) {
  return {.kind = LayerKind::kAveragePool,
          .kernel = kernel,
          .stride = stride,
          .padding = padding,
          .window_end = end};
}

// Networks in which values are read several times and added up, with norms and averages; over images of `image`, whose
// sides are even.
inline std::vector<std::vector<LayerConfig>> cuda_graphs(const Shape& image) {
  LayerConfig plain_norm = batch_norm();
  plain_norm.affine = false;
  LayerConfig debiased_norm = plain_norm;
  debiased_norm.debias = true;
  LayerConfig weighted = add({"a", "b", "a"});
  weighted.coefficients = {0.5, -1.0, 1.0};
  std::vector<std::vector<LayerConfig>> graphs = {
      // Neither scale nor shift; the first layer; running statistics with a weight.
      {plain_norm, conv_without_bias(6, 3), debiased_norm, relu(), dense(10)},
      // Averages: windows side by side, that overlap, and that hang over; of an odd number of channels.
      {conv(8, 3), relu(), average_pool(2, 2, 0, WindowEnd::kFloor), conv_without_bias(5, 3), relu(),
       average_pool(3, 2, 1, WindowEnd::kCeil), dense(10)},
      {conv(5, 3), average_pool(3, 2, 0, WindowEnd::kCeil), dense(10)},
      // Coefficients, of a value that is read twice, with a ReLU after.
      {named_layer("a", conv(4, 3)), named_layer("b", conv(4, 3), {"input"}), weighted, relu(), dense(10)},
      // No bias, but a ReLU; pooled or not.
      {conv_without_bias(8, 3), relu(), pool(2), conv_without_bias(6, 3), relu(), dense(10)},
  };
  const auto is_there = [](const std::vector<LayerConfig>& layers) {
    return std::all_of(layers.begin(), layers.end(), [](const auto& layer) { return is_on_gpu(layer.kind); });
  };
  for (const auto& layers : branching_networks(8, 4, image.height * image.width)) {
    if (is_there(layers)) graphs.push_back(layers);
  }
  for (const auto& layers : normalised_networks(8, 4)) {
    if (is_there(layers)) graphs.push_back(layers);
  }
  return graphs;
}

}  // namespace paceline
