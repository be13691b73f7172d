// A residual network with batch norm, a projection and average pools beside PyTorch 2.13 in double precision, whose
// numbers stand here. tests/process/daemons/formats.py prints them (residual_gradient), and compares every element
// where there is a PyTorch.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/unit/model_fixture.h"

using namespace paceline;

namespace {

// In [-0.5, 0.5): those of formats.py.
std::vector<float> drawn_for_pytorch(std::int64_t n, std::uint32_t seed) {
  constexpr std::uint32_t kModulus = 1U << 31U;
  std::vector<float> values;
  for (std::int64_t i = 0; i < n; ++i) {
    seed = (1103515245U * seed + 12345U) % kModulus;
    values.push_back(static_cast<float>(static_cast<double>(seed) / kModulus - 0.5));
  }
  return values;
}

NetworkSpec network_of_pytorch() {
  LayerConfig projection = named_layer("p", conv_without_bias(16, 1, 2), {"r1"});
  projection.padding = 0;
  const LayerConfig average{.kind = LayerKind::kAveragePool, .kernel = 2, .stride = 2};
  return network_of({named_layer("c1", conv_without_bias(8, 3)), named_layer("n1", batch_norm()),
                     named_layer("r1", relu()), named_layer("c2", conv_without_bias(16, 3, 2)),
                     named_layer("n2", batch_norm()), projection, named_layer("m", batch_norm()),
                     add({"n2", "m"}), relu(), average, global_average_pool(), named_layer("fc", dense(10))},
                    {3, 8, 8}, 10);
}

// Of a gradient, or of what was measured: its norm, and its inner product with numbers drawn by seed 3.
struct OfPytorch {
  std::string name;
  double norm;
  double product;
};
const std::vector<OfPytorch> kOfPytorch = {
    {"c1.weight", 0.325966381, -0.061248165},       {"n1.weight", 0.051314746, 0.003757038},
    {"n1.bias", 0.040380948, 0.007820678},          {"n1.running_mean", 0.028099473, 0.001569865},
    {"n1.running_var", 0.401632399, -0.130126347},  {"c2.weight", 0.209055974, 0.014152369},
    {"n2.weight", 0.096940773, -0.004682727},       {"n2.bias", 0.238132720, -0.025450839},
    {"n2.running_mean", 4.995850123, -0.240321289}, {"n2.running_var", 11.705339377, -2.052188448},
    {"p.weight", 0.205819145, -0.081099139},        {"m.weight", 0.126651720, -0.017435476},
    {"m.bias", 0.238132720, -0.025450839},          {"m.running_mean", 1.419599754, 0.385338779},
    {"m.running_var", 1.336705319, -0.324757039},   {"fc.weight", 0.659560428, -0.146650734},
    {"fc.bias", 0.255138794, 0.040644174}};
constexpr double kLoss = 2.657772570;
constexpr double kSmoothedLoss = 2.662016381;  // label_smoothing: 0.1

}  // namespace

TEST_CASE("the_gradient_of_a_residual_network_is_pytorchs_and_so_is_what_its_norms_measure") {
  const Backend kind = GENERATE(Backend::kReference, Backend::kOnednn);
  constexpr std::int64_t kSamples = 12;
  NetworkSpec network = network_of_pytorch();
  std::vector<float> parameters = drawn_for_pytorch(network.layout.size(), 1);
  for (const Layer& layer : network.layers) {
    if (!layer.mixes_samples()) continue;
    for (std::int64_t i = 0; i < layer.weight.size; ++i) ++parameters[layer.weight.offset + i];
  }
  const std::vector<float> images = drawn_for_pytorch(kSamples * network.input.size(), 2);
  std::vector<Label> labels;
  for (std::int64_t i = 0; i < kSamples; ++i) labels.push_back(static_cast<Label>((7 * i + 3) % 10));
  const Batch batch{images, labels, {}, {}};
  std::vector<float> gradient(parameters.size());
  const auto metric =
      backend_of(kind, network, kSamples)->gradient(parameters, batch, gradient, whole_at_the_end);
  REQUIRE(metric.status().message() == "");
  CHECK(metric->loss_sum / kSamples == Approx(kLoss).epsilon(1e-6));
  REQUIRE(kOfPytorch.size() == network.layout.tensors().size());
  for (std::size_t t = 0; t < kOfPytorch.size(); ++t) {
    const Tensor& tensor = network.layout.tensors()[t];
    const OfPytorch& expected = kOfPytorch[t];
    INFO(expected.name);
    CHECK(tensor.name == expected.name);
    const std::vector<float> with = drawn_for_pytorch(tensor.size(), 3);
    double squares = 0.0;
    double product = 0.0;
    for (std::int64_t i = 0; i < tensor.size(); ++i) {
      const double value = gradient[tensor.offset + i];
      squares += value * value;
      product += value * with[i];
    }
    // Float sums against double ones, as model_checks.h has them.
    CHECK(std::sqrt(squares) == Approx(expected.norm).epsilon(1e-5));
    CHECK(std::abs(product - expected.product) < 1e-5 * expected.norm);
  }

  network.label_smoothing = 0.1;
  const auto smoothed =
      backend_of(kind, network, kSamples)->gradient(parameters, batch, gradient, whole_at_the_end);
  CHECK(smoothed->loss_sum / kSamples == Approx(kSmoothedLoss).epsilon(1e-6));
}
