// The oneDNN back end against the reference: every kind of layer, in the combinations that it treats
// specially.
#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <thread>

#include "tests/unit/model_checks.h"
#include "worker/model/backend_per_size.h"

using namespace paceline;

namespace {

NetworkSpec ready_made(const std::string& model, double rate) {
  TrainSection train;
  train.model = model;
  train.dropout = rate;
  return build_network(train).value();
}

}  // namespace

TEST_CASE("cifar_cnn_small_agrees_with_the_reference") {
  check_against_reference(ready_made("cifar_cnn_small", 0.0), 8, 8, 1);
  check_against_reference(ready_made("cifar_cnn_small", 0.3), 5, 5, 2);
}

TEST_CASE("cifar_cnn_agrees_with_the_reference") {
  check_against_reference(ready_made("cifar_cnn", 0.5), 3, 3, 3);
}

TEST_CASE("each_combination_of_layers_agrees_with_the_reference") {
  const std::vector<std::vector<LayerConfig>> networks = {
      {dense(10)},
      {flatten(), dense(20), dense(10)},
      {conv(16, 3), dense(10)},
      {conv(5, 3, 2, 2), conv(7, 2, 1, 0), dense(10)},                   // channels that fill no block
      {conv(16, 3), relu(), conv(8, 3), relu(), dense(10)},              // ReLU done by the convolution
      {conv(16, 3), relu(), pool(2), relu(), pool(3, 2, 1), dense(10)},  // ReLU after the pool
      {conv(16, 3), pool(2), pool(2), conv(16, 3), pool(3, 1, 1),
       dense(10)},                      // pools that write over their source
      {relu(), conv(4, 3), dense(10)},  // works on the images, not in them
      {dropout(0.2), conv(4, 3), dense(10)},
      {pool(2), conv(16, 3), relu(), relu(), dense(12), relu(), relu(), dense(10)},
      {conv(20, 3), dropout(0.3), relu(), pool(2), dropout(0.1), flatten(),
       dense(10)},  // a mask in blocks of channels
      {conv(16, 3), relu(), dropout(0.3), pool(2), dense(16), dropout(0.2), relu(), dropout(0.2), dense(10)},
  };
  std::uint64_t seed = 20;
  for (const auto& layers : networks) {
    INFO("network " << seed - 20);
    check_against_reference(network_of(layers, {3, 12, 10}, 10), 4, 4, seed++);
  }
}

TEST_CASE("each_branching_network_agrees_with_the_reference") {
  std::uint64_t seed = 60;
  for (const auto& layers : branching_networks(16, 8, 12 * 10)) {
    INFO("network " << seed - 60);
    const NetworkSpec network = network_of(layers, {3, 12, 10}, 10);
    check_against_reference(network, 4, 4, seed);
    check_against_reference(network, 8, 5, seed++);
  }
}

TEST_CASE("each_normalised_network_agrees_with_the_reference") {
  std::uint64_t seed = 80;
  for (const auto& layers : normalised_networks(16, 8)) {
    INFO("network " << seed - 80);
    const NetworkSpec network = network_of(layers, {3, 12, 10}, 10);
    check_against_reference(network, 4, 4, seed);
    check_against_reference(network, 8, 5, seed++);
  }
}

TEST_CASE("resnet20_agrees_with_the_reference") {
  check_against_reference(ready_made("resnet20", 0.0), 3, 3, 90);
}

namespace {

bool has_bfloat16() {
  const Status status = check_precision(Backend::kOnednn, Precision::kBf16);
  if (!status.is_ok()) WARN("not tested: " << status.message());
  return status.is_ok();
}

std::unique_ptr<NetworkBackend> onednn_in(Precision precision, const NetworkSpec& network,
                                          std::int64_t built_for) {
  auto backend = make_backend(Backend::kOnednn, network, built_for, 5, nullptr, precision);
  INFO(backend.status().message());
  REQUIRE(backend.is_ok());
  return std::move(backend).value();
}

// A number is rounded by 2^-9 of itself at most; a chain of some layers has a few of these errors. A ReLU within
// rounding of 0 sends a difference whole or not at all, and a pool another one's.
constexpr double kSmoothTolerance = 0.03;
constexpr double kKinkTolerance = 0.25;
constexpr double kNarrowLossTolerance = 0.05;

// The same layers where what little changes moves little: tanh for relu, averages for maxima.
std::vector<LayerConfig> without_kinks(std::vector<LayerConfig> layers) {
  for (LayerConfig& layer : layers) {
    if (layer.kind == LayerKind::kRelu) layer.kind = LayerKind::kTanh;
    if (layer.kind == LayerKind::kPool) layer.kind = LayerKind::kAveragePool;
    for (std::string& name : layer.from) {
      if (name.starts_with("relu")) name.replace(0, 4, "tanh");
    }
  }
  return layers;
}

// Gradient and losses in bfloat16 beside those in float32 of the same draw, each tensor by its norm.
void check_bfloat16_against_float32(const NetworkSpec& network, std::int64_t built_for, std::int64_t samples,
                                    std::uint64_t seed, double tolerance) {
  const RandomBatch batch(network, samples, seed);
  const std::vector<float> parameters = random_parameters(network, seed);
  std::vector<float> expected(parameters.size());
  std::vector<float> got(parameters.size(), std::numeric_limits<float>::quiet_NaN());
  const auto wide = onednn_in(Precision::kFp32, network, built_for);
  const auto narrow = onednn_in(Precision::kBf16, network, built_for);
  const auto expected_metric = wide->gradient(parameters, batch.all(), expected, whole_at_the_end);
  const auto got_metric = narrow->gradient(parameters, batch.all(), got, whole_at_the_end);
  REQUIRE((expected_metric.is_ok() && got_metric.is_ok()));
  CHECK(got_metric->loss_sum == Approx(expected_metric->loss_sum).epsilon(kNarrowLossTolerance));
  CHECK(narrow->evaluate(parameters, batch.all())->loss_sum ==
        Approx(wide->evaluate(parameters, batch.all())->loss_sum).epsilon(kNarrowLossTolerance));
  CHECK(got != expected);
  for (const Tensor& tensor : network.layout.tensors()) {
    INFO(tensor.name);
    CHECK(relative_l2(got, expected, tensor.offset, tensor.size()) < tolerance);
  }
}

}  // namespace

TEST_CASE("each_combination_of_layers_in_bfloat16_is_near_float32") {
  if (!has_bfloat16()) return;
  const Shape image{3, 12, 10};
  std::uint64_t seed = 120;
  for (const auto& layers : std::vector<std::vector<LayerConfig>>{
           {conv(5, 3, 2, 2), conv(7, 2, 1, 0), dense(10)},  // channels that fill no block
           {conv_without_bias(16, 3), named_layer("a", batch_norm()), named_layer("b", conv(16, 3)),
            add({"b", "a"}), global_average_pool(), dense(10)}}) {
    INFO("network " << seed - 120);
    check_bfloat16_against_float32(network_of(layers, image, 10), 32, 24, seed++, kSmoothTolerance);
  }
  std::vector<std::vector<LayerConfig>> networks = {
      {conv(16, 3), relu(), dropout(0.3), pool(2), dense(16), dropout(0.2), relu(), dense(10)}};
  std::ranges::copy(branching_networks(16, 8, 12 * 10), std::back_inserter(networks));
  std::ranges::copy(normalised_networks(16, 8), std::back_inserter(networks));
  const LayerConfig lrn{.kind = LayerKind::kLrn, .size = 3, .alpha = 0.5};
  networks.push_back({conv(16, 3), lrn, relu(), pool(3, 2, 1), dense(10)});
  for (const auto& layers : networks) {
    INFO("network " << seed - 120);
    check_bfloat16_against_float32(network_of(layers, image, 10), 32, 24, seed, kKinkTolerance);
    check_bfloat16_against_float32(network_of(without_kinks(layers), image, 10), 32, 24, seed++,
                                   kSmoothTolerance);
  }
}

// Images and weights that are bfloat16 already: their products are exact, and only what was rounded after them differs.
TEST_CASE("the_logits_and_the_loss_of_a_network_in_bfloat16_are_float32") {
  if (!has_bfloat16()) return;
  for (const auto& layers : std::vector<std::vector<LayerConfig>>{
           {dense(10)},
           {conv(10, 3), global_average_pool()},
           {conv(10, 3), relu(), pool(2), global_average_pool()},
           {named_layer("a", dense(10)), named_layer("b", dense(10), {"input"}), add({"a", "b"})}}) {
    INFO(layers.size() << " layers");
    const NetworkSpec network = network_of(layers, {3, 4, 4}, 10);
    RandomBatch batch(network, 8, 1);
    std::vector<float> parameters = random_parameters(network, 1);
    const auto cut = [](float& value) {
      value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0xFFFF0000U);
    };
    std::ranges::for_each(batch.images, cut);
    std::ranges::for_each(parameters, cut);
    const auto loss_in = [&](Precision precision) {
      return onednn_in(precision, network, 8)->evaluate(parameters, batch.all())->loss_sum;
    };
    CHECK(loss_in(Precision::kBf16) == Approx(loss_in(Precision::kFp32)).epsilon(1e-6));
  }
}

TEST_CASE("a_short_training_in_bfloat16_learns_as_in_float32") {
  if (!has_bfloat16()) return;
  const NetworkSpec network = network_of(
      {conv_without_bias(8, 3), batch_norm(), relu(), pool(2), dense(16), relu(), dense(5)}, {3, 8, 8}, 5);
  const RandomBatch batch(network, 32, 1);
  const auto losses_in = [&](Precision precision) {
    const auto backend = onednn_in(precision, network, 32);
    std::vector<float> parameters = random_parameters(network, 1);
    std::vector<float> gradient(parameters.size());
    std::vector<double> losses;
    for (int step = 0; step < 60; ++step) {
      losses.push_back(backend->gradient(parameters, batch.all(), gradient, whole_at_the_end)->loss_sum / 32);
      for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= 0.1F * gradient[i];
    }
    return losses;
  };
  const std::vector<double> wide = losses_in(Precision::kFp32);
  const std::vector<double> narrow = losses_in(Precision::kBf16);
  CHECK(wide.back() < 0.1 * wide.front());
  CHECK(narrow.back() == Approx(wide.back()).epsilon(0.1));
  for (std::size_t i = 0; i < wide.size(); ++i) CHECK(std::abs(narrow[i] - wide[i]) < 0.2 * wide.front());
}

TEST_CASE("what_only_a_gpu_computes_in_is_refused") {
  for (const Backend kind : {Backend::kReference, Backend::kOnednn}) {
    for (const Precision precision : {Precision::kTf32, Precision::kFp16}) {
      CHECK(check_precision(kind, precision).message() ==
            std::string("train.precision: only a GPU has it, got ") + name_of(precision) +
                ", expected fp32 or bf16");
    }
  }
}

TEST_CASE("a_smaller_mini_batch_gives_its_own_gradient_with_smoothed_labels_or_without") {
  NetworkSpec network =
      network_of({dropout(0.1), conv(16, 3), relu(), pool(2), dense(12), relu(), dropout(0.3), dense(10)},
                 {3, 8, 8}, 10);
  network.label_smoothing = GENERATE(0.0, 0.3);
  check_against_reference(network, 8, 5, 40);
  check_against_reference(network, 8, 1, 41);
}

// Balanced batches: a back end for each size, kept while it is among the last ones used.
TEST_CASE("back_ends_per_size_give_what_one_built_for_it_gives_and_are_kept") {
  const Backend kind = GENERATE(Backend::kReference, Backend::kOnednn);
  const NetworkSpec network = network_of({conv(4, 3), relu(), pool(2), flatten(), dense(5)}, {3, 8, 8}, 5);
  const std::vector<float> parameters = random_parameters(network, 3);
  const RandomBatch data(network, 96, 4);
  constexpr std::int64_t kKept = 4;
  const auto make = [kind](const NetworkSpec& spec, std::int64_t size, std::uint64_t seed) {
    return make_backend(kind, spec, size, seed);
  };
  BackendPerSize backends(make, network, 5, kKept);
  const auto gradient_of = [&](NetworkBackend& backend, std::int64_t samples) {
    std::vector<float> gradient(parameters.size());
    const auto metric = backend.gradient(parameters, data.slice(0, samples), gradient, whole_at_the_end);
    REQUIRE(metric.is_ok());
    CHECK(metric->samples == samples);
    return gradient;
  };
  for (const std::int64_t samples : {32, 40, 32, 24, 40, 32}) {
    const auto backend = backends.of(samples);
    REQUIRE(backend.is_ok());
    const auto own = backend_of(kind, network, samples);
    CHECK(gradient_of(**backend, samples) == gradient_of(*own, samples));
  }
  CHECK(backends.built() == 3);
  // The last used stay; 24, which was not for longest, goes first.
  for (std::int64_t i = 0; i < kKept - 2; ++i) REQUIRE(backends.of(8 * (5 + 1 + i)).is_ok());
  CHECK(backends.built() == 3 + kKept - 2);
  REQUIRE((backends.of(32).is_ok() && backends.of(40).is_ok()));
  CHECK(backends.built() == 3 + kKept - 2);
  REQUIRE(backends.of(24).is_ok());
  CHECK(backends.built() == 3 + kKept - 1);
  CHECK(backends.of(0).status().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("what_a_back_end_computed_before_leaves_no_trace") {
  const NetworkSpec network =
      network_of({conv(16, 3), relu(), pool(2), dropout(0.3), dense(10)}, {3, 8, 8}, 10);
  const RandomBatch first(network, 6, 1);
  const RandomBatch second(network, 4, 2);
  const std::vector<float> parameters = random_parameters(network, 1);
  const auto used = backend_of(Backend::kOnednn, network, 6);
  const auto fresh = backend_of(Backend::kOnednn, network, 6);
  std::vector<float> got(parameters.size());
  std::vector<float> expected(parameters.size());
  REQUIRE(used->gradient(random_parameters(network, 9), first.all(), got, whole_at_the_end).is_ok());
  REQUIRE(used->evaluate(parameters, first.all()).is_ok());
  REQUIRE(used->gradient(parameters, second.all(), got, whole_at_the_end).is_ok());
  REQUIRE(fresh->gradient(parameters, second.all(), expected, whole_at_the_end).is_ok());
  CHECK(got == expected);  // to the bit: BSP's reproducibility rests on it
}

TEST_CASE("the_same_gradient_comes_out_of_every_thread_to_the_bit") {
  const NetworkSpec network =
      network_of({conv(16, 3), relu(), pool(2), dense(20), relu(), dense(10)}, {3, 8, 8}, 10);
  const RandomBatch batch(network, 4, 1);
  const std::vector<float> parameters = random_parameters(network, 1);
  std::vector<std::vector<float>> gradients(3, std::vector<float>(parameters.size()));
  std::vector<std::thread> threads;
  for (auto& gradient : gradients) {
    threads.emplace_back([&] {
      const auto backend = backend_of(Backend::kOnednn, network, 4);
      for (int i = 0; i < 3; ++i) {
        if (!backend->gradient(parameters, batch.all(), gradient, whole_at_the_end).is_ok()) gradient.clear();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(gradients[0].empty());
  CHECK(gradients[1] == gradients[0]);
  CHECK(gradients[2] == gradients[0]);
}

TEST_CASE("a_mini_batch_that_does_not_fit_is_refused_with_got_and_expected") {
  const NetworkSpec network = network_of({dropout(0.5), dense(3)}, {1, 2, 2}, 3);
  RandomBatch batch(network, 4, 1);
  const std::vector<float> parameters = random_parameters(network, 1);
  std::vector<float> gradient(parameters.size());
  for (const Backend kind : {Backend::kReference, Backend::kOnednn}) {
    const auto backend = backend_of(kind, network, 3);
    const auto refusal = [&](const Batch& bad) {
      return backend->gradient(parameters, bad, gradient, whole_at_the_end).status().message();
    };
    CHECK(refusal(batch.all()) == "mini-batch of 4 samples, expected 1 to 3");
    CHECK(refusal(batch.slice(0, 0)) == "mini-batch of 0 samples, expected 1 to 3");
    Batch bad = batch.slice(0, 2);
    bad.images = bad.images.first(7);
    CHECK(refusal(bad) == "mini-batch of 2 samples with 7 floats of images, expected 8");
    bad = batch.slice(0, 2);
    bad.epochs = {};
    CHECK(refusal(bad) == "mini-batch of 2 samples with 2 sample ids and 0 epochs, expected as many");
    CHECK(backend->evaluate(parameters, bad).is_ok());  // which drops nothing
    batch.labels[1] = 3;
    CHECK(refusal(batch.slice(0, 2)) == "mini-batch with label 3 at position 1, expected less than 3");
    batch.labels[1] = 2;
    CHECK(backend->gradient(parameters, batch.slice(0, 2), gradient, whole_at_the_end).is_ok());
  }
  CHECK(make_backend(Backend::kOnednn, network, 0, 1).status().message() ==
        "batch size 0, expected at least 1");
}

TEST_CASE("a_nan_comes_out_in_the_loss_and_the_gradient") {
  const NetworkSpec network = network_of({conv(4, 3), relu(), pool(2), dense(3)}, {1, 4, 4}, 3);
  const RandomBatch batch(network, 2, 1);
  std::vector<float> parameters = random_parameters(network, 1);
  parameters[network.layers.back().weight.offset] = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> gradient(parameters.size());
  for (const Backend kind : {Backend::kReference, Backend::kOnednn}) {
    const auto metric =
        backend_of(kind, network, 2)->gradient(parameters, batch.all(), gradient, whole_at_the_end);
    REQUIRE(metric.is_ok());
    CHECK(std::isnan(metric->loss_sum));
    CHECK(metric->correct == 0);
    CHECK(std::isnan(gradient[network.layers.back().bias.offset]));
  }
}
