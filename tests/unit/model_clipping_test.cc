// Gradients that are scaled down where they are too long.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/unit/model_checks.h"
#include "worker/model/clipping.h"

using namespace paceline;

TEST_CASE("a_gradient_longer_than_the_bound_is_scaled_down_to_it") {
  LayerConfig frozen = dense(12);
  frozen.lr_factor = 0.0;
  const LayerConfig measures{
      .kind = LayerKind::kBatchNorm, .epsilon = 1e-5, .momentum = 0.001, .affine = false, .debias = true};
  const NetworkSpec network = network_of({frozen, measures, dense(10)}, {3, 4, 4}, 10);
  const RandomBatch batch(network, 4, 31);
  const std::vector<float> parameters = random_parameters(network, 31);
  const MakeBackend plain = [](const NetworkSpec& of, std::int64_t batch_size, std::uint64_t seed) {
    return make_backend(Backend::kReference, of, batch_size, seed);
  };
  const auto gradient = [&](std::optional<double> bound) {
    std::vector<float> result(parameters.size());
    const auto backend = clipping(plain, bound)(network, 4, 5).value();
    REQUIRE(backend->gradient(parameters, batch.all(), result, whole_at_the_end).is_ok());
    return result;
  };
  const std::vector<float> whole = gradient(std::nullopt);
  double squares = 0.0;
  for (const Tensor& tensor : network.layout.tensors()) {
    if (!tensor.name.starts_with("fc2")) continue;
    for (std::int64_t i = tensor.offset; i < tensor.offset + tensor.size(); ++i) {
      squares += std::pow(whole[static_cast<std::size_t>(i)], 2);
    }
  }
  const double norm = std::sqrt(squares);
  CHECK(gradient(norm * 1.01) == whole);
  const std::vector<float> clipped = gradient(norm / 4);
  for (const Tensor& tensor : network.layout.tensors()) {
    const double share = tensor.name.starts_with("fc2") ? 0.25 : 1.0;  // the others do not count
    for (std::int64_t i = tensor.offset; i < tensor.offset + tensor.size(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      CHECK(clipped[at] == Approx(whole[at] * share).margin(1e-12));
    }
  }
}
