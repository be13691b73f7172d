// The CUDA back end against the reference: with the real libraries on a GPU (gpu_test), and with the tests'
// own on none (model_cuda_test). Inputs are random, from Catch's seed: `--rng-seed time` makes them fresh.
#include <cstring>
#include <utility>
#include <vector>

#include "common/params/vector_ops.h"
#include "tests/unit/cuda_norm_group_fixture.h"
#include "tests/unit/cuda_threads_fixture.h"
#include "tests/unit/model_finals.h"
#include "worker/model/accumulating.h"

using namespace paceline;

namespace {

// Float sums of up to 10^5 terms, some of them by transforms (FFT), against double ones. 1e-3 of a tensor's
// norm is what the issue asks for.
constexpr double kTolerance = 1e-3;
constexpr int kDraws = 3;  // of the CIFAR networks, whose hundred thousands of ReLUs and windows may flip
// A bfloat16 has 8 bits, so each rounding is up to 2^-9 = 0.2 %: what is linear stays within 2e-2 of what is
// not rounded at all, as the issue asks.
constexpr double kNarrowTolerance = 2e-2;
// A ReLU whose input is that near to 0 lets through or stops a whole gradient: of the 1000 elements of a
// small mini-batch's last hidden layer a few do, and 3 of the 500 that are let through are sqrt(3 / 500) = 8
// % of the norm. So whole networks in bfloat16 are held to 2e-2 of a reference that rounds where they do,
// and, as those in tf32, to this of what is not rounded.
constexpr double kNarrowReluTolerance = 0.2;

std::uint64_t fresh() { return Catch::rngSeed(); }

// Samples of a mini-batch for the CIFAR networks, whose reference in plain loops is what takes the time.
constexpr std::int64_t few(std::int64_t samples) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return samples / 2;
#else
  return samples;
#endif
}

}  // namespace

TEST_CASE("cuda_agrees_with_the_reference_on_each_combination_of_layers") {
  std::uint64_t number = 0;
  for (const auto& layers : cuda_networks()) {
    INFO("network " << number << ", seed " << fresh());
    check_cuda_against_reference(network_of(layers, {3, 12, 10}, 10), 4, 4, fresh() + 20 + number++,
                                 kTolerance);
  }
}

TEST_CASE("cuda_agrees_with_the_reference_on_each_graph_with_norms_sums_and_averages") {
  std::uint64_t number = 0;
  for (const auto& layers : cuda_graphs({3, 12, 10})) {
    INFO("network " << number << ", seed " << fresh());
    const NetworkSpec network = network_of(layers, {3, 12, 10}, 10);
    check_cuda_against_reference(network, 4, 4, fresh() + 220 + number, kTolerance, {}, kDraws);
    check_cuda_against_reference(network, 8, 5, fresh() + 240 + number++, kTolerance, {}, kDraws);
  }
}

TEST_CASE("cuda_agrees_with_the_reference_on_resnet20") {
  INFO("seed " << fresh());
  check_cuda_against_reference(ready_made("resnet20", 0.0), 3, 3, fresh() + 10, kTolerance, {}, kDraws);
}

TEST_CASE("cuda_agrees_with_the_reference_on_each_channel_pooled_to_a_single_place_and_on_smoothed_labels") {
  INFO("seed " << fresh());
  for (const auto& layers : {std::vector<LayerConfig>{conv(64, 3), relu(), pool(8), dense(10)},
                             {conv(8, 3), relu(), pool(4), conv(12, 3), relu(), pool(2), dense(10)}}) {
    NetworkSpec network = network_of(layers, {3, 8, 8}, 10);
    network.label_smoothing = 0.3;
    check_cuda_against_reference(network, 8, 7, fresh() + 50, kTolerance);
  }
}

TEST_CASE("cuda_agrees_with_the_reference_on_cifar_cnn_small") {
  INFO("seed " << fresh());
  check_cuda_against_reference(ready_made("cifar_cnn_small", 0.0), few(8), few(8), fresh() + 1, kTolerance,
                               {}, kDraws);
  check_cuda_against_reference(ready_made("cifar_cnn_small", 0.3), few(5), few(5), fresh() + 2, kTolerance,
                               {}, kDraws);
}

TEST_CASE("cuda_agrees_with_the_reference_on_cifar_cnn") {
  INFO("seed " << fresh());
  check_cuda_against_reference(ready_made("cifar_cnn", 0.5), few(3), few(3), fresh() + 3, kTolerance, {},
                               kDraws);
}

// Cases by the beginnings of their names are what scripts/gpu_check.sh gives compute-sanitizer: those of the
// CIFAR networks, which take it minutes, begin otherwise.
TEST_CASE("cuda_with_tensor_cores_agrees_with_the_reference_within_their_precision") {
  const Precision precision = GENERATE(Precision::kTf32, Precision::kBf16, Precision::kFp16);
  INFO("precision " << static_cast<int>(precision) << ", seed " << fresh());
  for (const auto& layers : {std::vector<LayerConfig>{dense(10)},
                             {conv(5, 3, 2, 2), conv(7, 2, 1, 0), dense(10)},
                             {dropout(0.2), conv(16, 3), dropout(0.4), dense(20), dropout(0.5), dense(10)}}) {
    check_cuda_against_reference(network_of(layers, {3, 12, 10}, 10), 8, 7, fresh() + 4, kNarrowTolerance,
                                 {precision});
  }
}

TEST_CASE("cifar_networks_with_tensor_cores_agree_with_the_reference_as_far_as_their_relus_do") {
  const Precision precision = GENERATE(Precision::kTf32, Precision::kBf16);
  INFO("precision " << static_cast<int>(precision) << ", seed " << fresh());
  check_cuda_against_reference(ready_made("cifar_cnn_small", 0.1), 8, 8, fresh() + 5, kNarrowReluTolerance,
                               {precision});
  check_cuda_against_reference(ready_made("cifar_cnn", 0.5), 4, 3, fresh() + 6, kNarrowReluTolerance,
                               {precision});
}

// Products that are summed up in another order may be rounded the other way, and tell a pool's largest from
// its equal: now and then a draw has one of these.
TEST_CASE("cifar_networks_in_bfloat16_agree_with_a_reference_that_rounds_where_they_do") {
  const Beside rounded{Precision::kBf16, Activations::kBfloat16};
  INFO("seed " << fresh());
  check_cuda_against_reference(ready_made("cifar_cnn_small", 0.0), few(8), few(8), fresh() + 7,
                               kNarrowTolerance, rounded, kDraws);
  check_cuda_against_reference(ready_made("cifar_cnn_small", 0.3), few(5), few(5), fresh() + 8,
                               kNarrowTolerance, rounded, kDraws);
  check_cuda_against_reference(ready_made("cifar_cnn", 0.5), few(4), few(3), fresh() + 9, kNarrowTolerance,
                               rounded, kDraws);
}

TEST_CASE("each_combination_of_layers_in_bfloat16_agrees_with_a_reference_that_rounds_where_it_does") {
  std::uint64_t number = 0;
  for (const auto& layers : cuda_networks()) {
    INFO("network " << number << ", seed " << fresh());
    check_cuda_against_reference(network_of(layers, {3, 12, 10}, 10), 4, 4, fresh() + 80 + number++,
                                 kNarrowTolerance, {Precision::kBf16, Activations::kBfloat16}, kDraws);
  }
}

TEST_CASE("each_graph_in_16_bits_agrees_with_the_reference_as_far_as_its_relus_do") {
  const Beside beside = GENERATE(Beside{Precision::kBf16, Activations::kBfloat16}, Beside{Precision::kFp16});
  std::uint64_t number = 0;
  for (const auto& layers : cuda_graphs({3, 12, 10})) {
    INFO("network " << number << ", seed " << fresh());
    check_cuda_against_reference(network_of(layers, {3, 12, 10}, 10), 8, 7, fresh() + 260 + number++,
                                 kNarrowReluTolerance, beside);
  }
}

TEST_CASE("a_norm_over_one_value_is_refused_by_cuda") {
  const NetworkSpec network = network_of({flatten(), batch_norm(), dense(3)}, {1, 2, 2}, 3);
  const RandomBatch batch(network, 1, 1);
  const std::vector<float> parameters = random_parameters(network, 1);
  std::vector<float> gradient(parameters.size());
  const auto backend = cuda_backend_of(network, 2);
  CHECK(backend->gradient(parameters, batch.all(), gradient, whole_at_the_end).status().message() ==
        "mini-batch of 1 sample: bn1 normalises over one value, expected at least 2 samples");
  CHECK(backend->evaluate(parameters, batch.all()).is_ok());
}

TEST_CASE("parts_of_a_group_with_cuda_have_the_gradient_of_one_worker_with_the_whole_mini_batch") {
  check_groups_on_gpus({{4, 4}, {5, 2, 3}}, Members::kThreads, kTolerance, fresh() + 13);
}

TEST_CASE("parts_of_a_group_with_cuda_in_bfloat16_have_the_gradient_of_the_whole_as_far_as_its_relus_do") {
  check_groups_on_gpus({{4, 4}}, Members::kThreads, kNarrowReluTolerance, fresh() + 14,
                       {Precision::kBf16, Activations::kBfloat16});
}

// Differences of 2^-20 times what a loss gives are less than float16 has; times 65,536 they are not.
TEST_CASE("differences_too_small_for_float16_come_through_loss_scaling") {
  const NetworkSpec network = network_of({dense(8), dense(3)}, {1, 4, 4}, 3);
  const RandomBatch batch(network, 4, fresh() + 11);
  std::vector<float> parameters = random_parameters(network, fresh() + 11);
  const Layer& last = network.layers.back();
  for (std::int64_t i = 0; i < last.weight.size; ++i) {
    parameters[last.weight.offset + i] = i % 3 == 0 ? -0x1p-20F : 0x1p-20F;
  }
  std::vector<float> expected(parameters.size());
  std::vector<float> got(parameters.size());
  REQUIRE(backend_of(Backend::kReference, network, 4)
              ->gradient(parameters, batch.all(), expected, whole_at_the_end)
              .is_ok());
  REQUIRE(cuda_backend_of(network, 4, Precision::kFp16)
              ->gradient(parameters, batch.all(), got, whole_at_the_end)
              .is_ok());
  CHECK(relative_l2(got, expected, 0, network.layers[0].weight.size) < kNarrowTolerance);
}

namespace {

// Weights of 64 make differences of the loss's times 65,536 that float16 does not have; those of 1/64 do not.
struct Float16Steps {
  // With the parameters on the GPU steps are graphs from the second on. A mini-batch is computed in `parts_of_it`, each
  // scaled by itself (worker/model/accumulating.h).
  Float16Steps(bool are_on_gpu, std::int64_t parts_of_it)
      : on_gpu(are_on_gpu),
        parts(parts_of_it),
        network(network_of({dense(8), batch_norm(), dense(3)}, {1, 4, 4}, 3)),
        batch(network, 4 * parts, fresh() + 12),
        parameters(random_parameters(network, fresh() + 12)),
        expected(parameters.size()),
        got(parameters.size()) {
    const ParameterRange& gamma = network.layers[1].weight;
    std::fill_n(parameters.begin() + gamma.offset, gamma.size, 0x1p-6F);  // so that logits are no extremes
    const auto gpus = cuda::open_gpus({{}, Precision::kFp16});
    REQUIRE(gpus.is_ok());
    const auto thread = (*gpus)->for_thread(0, nullptr);
    REQUIRE(thread.is_ok());
    auto made = thread->make_vectors(network, OptimizerSection{});
    REQUIRE(made.is_ok());
    vectors = std::move(made).value();
    set_weights(64.0F);  // the thread cache has parameters before its back end is made
    thread->loss_scaler->steps_of_a_gradient(parts);
    auto backend_made = accumulating(thread->make_backend, parts)(network, 4 * parts, 5);
    REQUIRE(backend_made.is_ok());
    backend = std::move(backend_made).value();
  }

  // Of the last layer.
  void set_weights(float size) {
    const ParameterRange& weight = network.layers.back().weight;
    for (std::int64_t i = 0; i < weight.size; ++i) parameters[weight.offset + i] = i % 3 == 0 ? -size : size;
    vectors->take_over(0, SharedFloats(std::make_shared<const std::vector<float>>(parameters)), {});
    const auto make_reference = [](const NetworkSpec& of, std::int64_t samples, std::uint64_t seed) {
      return make_backend(Backend::kReference, of, samples, seed);
    };
    const auto reference = accumulating(make_reference, parts)(network, 4 * parts, 5);
    REQUIRE(reference.is_ok());
    REQUIRE((*reference)->gradient(parameters, batch.all(), expected, whole_at_the_end).is_ok());
  }
  // Whether it is finite.
  bool step() {
    layers.clear();
    const auto from = on_gpu ? std::span<const float>() : std::span<const float>(parameters);
    const auto metric =
        backend->gradient(from, batch.all(), got, [&](std::int64_t begin) { layers.push_back(begin); });
    REQUIRE(metric.is_ok());
    CHECK(std::isfinite(metric->loss_sum));
    return !first_non_finite(got).has_value();
  }
  double difference() const { return relative_l2(got, expected, 0, network.layout.size()); }

  const bool on_gpu;
  const std::int64_t parts;
  const NetworkSpec network;
  const RandomBatch batch;
  std::vector<float> parameters;
  std::vector<float> expected;
  std::vector<float> got;
  std::vector<std::int64_t> layers;  // that the last step gave away
  std::unique_ptr<CacheVectors> vectors;
  std::unique_ptr<NetworkBackend> backend;
};

}  // namespace

TEST_CASE("a_step_that_overflows_float16_while_the_scale_is_a_guess_is_made_again_until_it_does_not") {
  const std::int64_t parts = GENERATE(1, 2);
  Float16Steps steps(GENERATE(false, true), parts);
  INFO("seed " << fresh());
  CHECK(steps.step());
  CHECK(steps.difference() < kNarrowTolerance);
  CHECK(steps.layers == std::vector<std::int64_t>{steps.network.layers[2].weight.offset,
                                                  steps.network.layers[1].weight.offset, 0});
}

TEST_CASE("a_step_that_overflows_float16_with_a_scale_that_was_good_is_not_finite_and_the_next_one_is") {
  const std::int64_t parts = GENERATE(1, 2);
  Float16Steps steps(GENERATE(false, true), parts);
  INFO("seed " << fresh());
  steps.set_weights(0x1p-6F);
  CHECK(steps.step());
  CHECK(steps.difference() < kNarrowTolerance);
  steps.set_weights(64.0F);
  CHECK_FALSE(steps.step());
  CHECK(steps.step());
  CHECK(steps.difference() < kNarrowTolerance);
}

TEST_CASE("a_smaller_mini_batch_gives_its_own_gradient_with_cuda") {
  const NetworkSpec network =
      network_of({dropout(0.1), conv(16, 3), relu(), pool(2), dense(12), relu(), dropout(0.3), dense(10)},
                 {3, 8, 8}, 10);
  check_cuda_against_reference(network, 8, 5, fresh() + 40, kTolerance);
  check_cuda_against_reference(network, 8, 1, fresh() + 41, kTolerance);
}

// A network of one dropout layer and zero weights: a weight's gradient is the mask times +-0.5.
TEST_CASE("cuda_draws_the_masks_of_the_other_back_ends_to_the_bit") {
  const NetworkSpec network = network_of({dropout(0.25), dense(2)}, {1, 41, 101}, 2);
  RandomBatch batch(network, 1, fresh() + 3);
  std::fill(batch.images.begin(), batch.images.end(), 1.0F);
  const std::vector<float> parameters(network.layout.size());
  std::vector<float> expected(parameters.size());
  std::vector<float> got(parameters.size());
  const auto reference = backend_of(Backend::kReference, network, 1);
  REQUIRE(reference->gradient(parameters, batch.all(), expected, whole_at_the_end).is_ok());
  const auto cuda = cuda_backend_of(network, 1);
  REQUIRE(cuda->gradient(parameters, batch.all(), got, whole_at_the_end).is_ok());
  CHECK(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0);
}

// All values in a window are equal, as after a ReLU that stopped them: the convolution looks at channel 0,
// which is 1 everywhere. Where the gradient went shows in the weight of channel 1, whose inputs are all
// different.
TEST_CASE("of_equal_values_in_a_window_cuda_sends_the_gradient_to_the_first") {
  // Windows that overlap, that lie apart, that lie side by side, and those with a ReLU in front.
  const auto [layers, image] =
      GENERATE(std::pair{std::vector{conv(1, 1), pool(3, 1, 1), dense(3)}, Shape{2, 5, 4}},
               std::pair{std::vector{conv(1, 1), pool(2, 3), dense(3)}, Shape{2, 5, 6}},
               std::pair{std::vector{conv(1, 1), pool(2), dense(3)}, Shape{2, 4, 8}},
               std::pair{std::vector{conv(1, 1), relu(), pool(2), dense(3)}, Shape{2, 6, 16}},
               std::pair{std::vector{conv(1, 1), relu(), pool(3, 2, 1), dense(3)}, Shape{2, 5, 4}});
  const float bias = GENERATE(0.0F, -2.0F);  // with -2 a ReLU stops them all
  const NetworkSpec network = network_of(layers, image, 3);
  RandomBatch batch(network, 1, fresh() + 6);
  std::fill_n(batch.images.begin(), image.height * image.width, 1.0F);
  std::vector<float> parameters = random_parameters(network, fresh() + 6);
  parameters[2] = bias;
  parameters[0] = 1.0F;
  parameters[1] = 0.0F;
  std::vector<float> expected(parameters.size());
  std::vector<float> got(parameters.size());
  const auto reference = backend_of(Backend::kReference, network, 1);
  REQUIRE(reference->gradient(parameters, batch.all(), expected, whole_at_the_end).is_ok());
  REQUIRE(cuda_backend_of(network, 1)->gradient(parameters, batch.all(), got, whole_at_the_end).is_ok());
  CHECK(got[1] == Approx(expected[1]).epsilon(kTolerance));
  CHECK(relative_l2(got, expected, 0, network.layout.size()) < kTolerance);
}

TEST_CASE("cuda_says_of_each_layer_that_it_is_final_the_last_first_and_it_is") {
  const auto layers = GENERATE(
      std::vector<LayerConfig>{conv(4, 3), relu(), pool(2), dropout(0.3), conv(6, 3), relu(), pool(2),
                               dense(8), relu(), dense(5)},
      std::vector<LayerConfig>{relu(), conv(4, 3, 2), pool(2), flatten(), dense(5)},
      std::vector<LayerConfig>{dense(5)},
      std::vector<LayerConfig>{named_layer("a", conv_without_bias(4, 3)), batch_norm(), relu(),
                               named_layer("b", conv(4, 3)), add({"b", "a"}), batch_norm(), dense(5)});
  const std::int64_t samples = GENERATE(1, 4);  // of 4
  const NetworkSpec network = network_of(layers, {3, 8, 8}, 5);
  const RandomBatch batch(network, samples, 2);
  const std::vector<float> parameters = random_parameters(network, 2);
  check_finals(*cuda_backend_of(network, 4), network, parameters, batch.all());
}

TEST_CASE("what_cuda_computed_before_leaves_no_trace") {
  const NetworkSpec network =
      network_of({conv(16, 3), relu(), pool(2), dropout(0.3), dense(10)}, {3, 8, 8}, 10);
  const RandomBatch first(network, 6, 1);
  const RandomBatch second(network, 4, 2);
  const std::vector<float> parameters = random_parameters(network, 1);
  const auto used = cuda_backend_of(network, 6);
  std::vector<float> got(parameters.size());
  std::vector<float> expected(parameters.size());
  REQUIRE(
      cuda_backend_of(network, 6)->gradient(parameters, second.all(), expected, whole_at_the_end).is_ok());
  REQUIRE(used->gradient(random_parameters(network, 9), first.all(), got, whole_at_the_end).is_ok());
  REQUIRE(used->evaluate(parameters, first.all()).is_ok());
  REQUIRE(used->gradient(parameters, second.all(), got, whole_at_the_end).is_ok());
  // On a GPU the two may have been given different algorithms.
  CHECK(relative_l2(got, expected, 0, network.layout.size()) < kTolerance);
}

// What a step gets wrong is in the parameters of the next. tests/bench/loss_beside_cpu.py does the same with
// whole networks.
TEST_CASE("the_loss_of_training_with_cuda_stays_by_the_references") {
  constexpr int kSteps = 20;
  const Precision precision =
      GENERATE(Precision::kFp32, Precision::kTf32, Precision::kBf16, Precision::kFp16);
  const NetworkSpec network =
      network_of({conv(8, 3), relu(), pool(2), dense(12), relu(), dense(10)}, {3, 8, 8}, 10);
  const auto reference = backend_of(Backend::kReference, network, 8);
  const auto cuda = cuda_backend_of(network, 8, precision);
  std::vector<float> expected = random_parameters(network, fresh() + 50);
  std::vector<float> got = expected;
  std::vector<float> gradient(expected.size());
  const auto loss_of_step = [&](NetworkBackend& backend, std::vector<float>& parameters, const Batch& batch) {
    const auto metric = backend.gradient(parameters, batch, gradient, whole_at_the_end);
    REQUIRE(metric.is_ok());
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= 0.05F * gradient[i];
    return metric->loss_sum / static_cast<double>(metric->samples);
  };
  double difference = 0.0;
  for (int step = 0; step < kSteps; ++step) {
    const RandomBatch batch(network, 8, fresh() + 51 + step % 4);  // so that there is something to learn
    const double loss = loss_of_step(*reference, expected, batch.all());
    difference += std::abs(loss_of_step(*cuda, got, batch.all()) - loss) / loss;
  }
  INFO("seed " << fresh());
  CHECK(difference / kSteps < 0.02);
}

TEST_CASE("a_nan_comes_out_of_cuda_in_the_loss_and_the_gradient") {
  const std::int64_t width = GENERATE(4, 8);  // in windows that are looked at one by one, and four at a time
  const NetworkSpec network = network_of({conv(4, 3), relu(), pool(2), dense(3)}, {1, 4, width}, 3);
  const RandomBatch batch(network, 2, 1);
  const Precision precision = GENERATE(Precision::kFp32, Precision::kBf16, Precision::kFp16);
  const auto backend = cuda_backend_of(network, 2, precision);
  std::vector<float> gradient(network.layout.size());
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> parameters = random_parameters(network, 1);
    parameters[network.layers.back().bias.offset] = bad;
    const auto metric = backend->gradient(parameters, batch.all(), gradient, whole_at_the_end);
    REQUIRE(metric.is_ok());
    CHECK_FALSE(std::isfinite(metric->loss_sum));
    CHECK(std::isnan(gradient[network.layers.back().bias.offset]));
    // From the first layer on: through the ReLU.
    parameters = random_parameters(network, 1);
    parameters[network.layers.front().bias.offset] = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(backend->gradient(parameters, batch.all(), gradient, whole_at_the_end)->loss_sum));
    CHECK(backend->evaluate(parameters, batch.all())->correct == 0);
  }
  const std::vector<float> good = random_parameters(network, 1);
  CHECK(std::isfinite(backend->gradient(good, batch.all(), gradient, whole_at_the_end)->loss_sum));
}

TEST_CASE("threads_that_share_gpus_do_what_each_does_alone") {
  const OptimizerKind kind = GENERATE(OptimizerKind::kSgd, OptimizerKind::kAdam);
  const auto gpus = cuda::open_gpus({});
  REQUIRE(gpus.is_ok());
  check_threads_agree(**gpus, small_network(), kind);
}

TEST_CASE("a_layer_that_is_not_on_a_gpu_is_named") {
  const auto gpus = cuda::open_gpus({{}, Precision::kFp32});
  REQUIRE(gpus.is_ok());
  const auto make = (*gpus)->for_thread(0, nullptr);
  REQUIRE(make.is_ok());
  const NetworkSpec network =
      network_of({conv(3, 3), named_layer("both", concat({"conv1", "input"})), dense(5)}, {3, 8, 8}, 5);
  CHECK(make->make_backend(network, 4, 5).status().message() ==
        "layer 1 (concat both): there is no such layer on a GPU");
}

TEST_CASE("a_mini_batch_that_does_not_fit_is_refused_by_cuda") {
  const NetworkSpec network = network_of({dropout(0.5), dense(3)}, {1, 2, 2}, 3);
  const RandomBatch batch(network, 4, 1);
  const std::vector<float> parameters = random_parameters(network, 1);
  std::vector<float> gradient(parameters.size());
  const auto backend = cuda_backend_of(network, 3);
  const auto refused = backend->gradient(parameters, batch.all(), gradient, whole_at_the_end);
  CHECK(refused.status().message() == "mini-batch of 4 samples, expected 1 to 3");
  Batch bad = batch.slice(0, 2);
  bad.epochs = {};
  CHECK(backend->gradient(parameters, bad, gradient, whole_at_the_end).status().code() ==
        StatusCode::kInvalidArgument);
  CHECK(backend->evaluate(parameters, bad).is_ok());  // which drops nothing
  const auto make = (*cuda::open_gpus({}))->for_thread(0, nullptr);
  CHECK(make->make_backend(network, 0, 1).status().message() == "batch size 0, expected at least 1");
}
