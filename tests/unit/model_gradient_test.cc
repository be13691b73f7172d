// The reference back end against finite differences, layer by layer, and the rules that dropout and
// mini-batches keep.
#include <catch2/catch.hpp>
#include <cmath>

#include "common/fnv1a.h"
#include "common/hex.h"
#include "tests/unit/model_checks.h"
#include "tests/unit/model_finals.h"
#include "worker/model/accumulating.h"
#include "worker/model/loss.h"
#include "worker/model/reference.h"

using namespace paceline;

TEST_CASE("the_gradient_of_a_dense_layer_is_its_finite_difference") {
  check_gradient(network_of({dense(4)}, {1, 3, 3}, 4));
}

TEST_CASE("the_gradient_of_a_convolution_is_its_finite_difference") {
  check_gradient(network_of({conv(3, 3), conv(2, 3), dense(4)}, {2, 5, 4}, 4));
}

TEST_CASE("the_gradient_of_a_strided_and_of_an_unpadded_convolution_is_its_finite_difference") {
  check_gradient(network_of({conv(3, 3, 2, 2), conv(2, 2, 1, 0), dense(4)}, {2, 6, 7}, 4));
}

TEST_CASE("the_gradient_through_relu_is_its_finite_difference") {
  check_gradient(network_of({conv(3, 3), relu(), flatten(), dense(6), relu(), dense(4)}, {2, 4, 4}, 4));
}

TEST_CASE("the_gradient_through_a_pool_is_its_finite_difference") {
  check_gradient(network_of({conv(3, 3), pool(2), conv(3, 3), pool(3, 2, 1), dense(4)}, {2, 7, 6}, 4));
}

TEST_CASE("the_gradient_through_dropout_is_its_finite_difference") {
  check_gradient(
      network_of({conv(3, 3), dropout(0.3), dense(8), relu(), dropout(0.5), dense(4)}, {2, 4, 4}, 4));
}

TEST_CASE("the_gradient_of_a_small_network_like_the_cifar_ones_is_its_finite_difference") {
  check_gradient(network_of({conv(4, 5), relu(), pool(2), conv(4, 5), relu(), pool(2), flatten(), dense(6),
                             relu(), dropout(0.25), dense(3)},
                            {3, 8, 8}, 3));
}

TEST_CASE("the_gradient_of_a_sum_of_layers_is_its_finite_difference") {
  check_gradient(network_of(
      {named_layer("a", conv(3, 3)), relu(), named_layer("b", conv(3, 3)), add({"a", "b", "a"}), dense(4)},
      {2, 5, 4}, 4));
}

TEST_CASE("the_gradient_of_layers_side_by_side_is_its_finite_difference") {
  check_gradient(network_of({named_layer("a", conv(3, 3)), named_layer("b", conv(2, 3)),
                             concat({"b", "input", "a"}), conv(2, 3), dense(4)},
                            {2, 5, 4}, 4));
}

TEST_CASE("the_gradient_through_a_global_average_pool_is_its_finite_difference") {
  check_gradient(network_of({conv(3, 3), global_average_pool(), dense(4)}, {2, 5, 4}, 4));
}

TEST_CASE("the_gradient_of_each_branching_network_is_its_finite_difference") {
  const auto layers = branching_networks(4, 2, 4 * 4);
  const auto index = GENERATE(range(0, 8));
  REQUIRE(layers.size() == 8);
  INFO("network " << index);
  check_gradient(network_of(layers[static_cast<std::size_t>(index)], {3, 4, 4}, 10));
}

TEST_CASE("the_gradient_of_each_normalised_network_is_its_finite_difference") {
  const auto layers = normalised_networks(4, 2);
  const auto index = GENERATE(range(0, 6));
  REQUIRE(layers.size() == 6);
  INFO("network " << index);
  check_gradient(network_of(layers[static_cast<std::size_t>(index)], {3, 4, 4}, 10));
}

// By hand: one channel, two samples of two places with 1, 3, 5, 7: mean 4, squared distances 9, 1, 1, 9.
TEST_CASE("a_batch_norm_measures_its_mini_batch_in_training_and_goes_by_running_statistics_in_an_evaluation",
          "[both]") {
  LayerConfig norm = batch_norm();
  norm.epsilon = 0.25;
  const NetworkSpec network = network_of({norm, dense(2)}, {1, 1, 2}, 2);
  // gamma, beta, running mean and variance; both logits are the same: the loss is what the first place is.
  const std::vector<float> parameters{2, 0.5, 3, 0.75, 1, 0, 0, 0, 0, 0};
  const std::vector<float> images{1, 3, 5, 7};
  const std::vector<Label> labels{0, 0};
  const Batch batch{images, labels, {}, {}};
  const auto loss = [](double logit) { return std::log1p(std::exp(-logit)); };
  for (const Backend kind : {Backend::kReference, Backend::kOnednn}) {
    const auto backend = backend_of(kind, network, 2);
    std::vector<float> gradient(parameters.size());
    const auto trained = backend->gradient(parameters, batch, gradient, whole_at_the_end);
    REQUIRE(trained.is_ok());
    CHECK(gradient[2] == Approx(4.0));
    CHECK(gradient[3] == Approx(20.0 / 3.0));  // without its bias; it normalises by 20 / 4
    const double scale = 2.0 / std::sqrt(5.25);
    CHECK(trained->loss_sum == Approx(loss(0.5 - 3.0 * scale) + loss(0.5 + 1.0 * scale)));
    // (x - 3) 2 / sqrt(0.75 + 0.25) + 0.5
    CHECK(backend->evaluate(parameters, batch)->loss_sum == Approx(loss(-3.5) + loss(4.5)));
  }
}

TEST_CASE("a_norm_over_one_value_is_refused", "[both]") {
  const NetworkSpec network = network_of({global_average_pool(), batch_norm(), dense(3)}, {2, 2, 2}, 3);
  const RandomBatch batch(network, 2, 1);
  const std::vector<float> parameters = random_parameters(network, 1);
  std::vector<float> gradient(parameters.size());
  for (const Backend kind : {Backend::kReference, Backend::kOnednn}) {
    const auto backend = backend_of(kind, network, 2);
    CHECK(backend->gradient(parameters, batch.slice(0, 1), gradient, whole_at_the_end).status().message() ==
          "mini-batch of 1 sample: bn1 normalises over one value, expected at least 2 samples");
    CHECK(backend->gradient(parameters, batch.all(), gradient, whole_at_the_end).is_ok());
    CHECK(backend->evaluate(parameters, batch.slice(0, 1)).is_ok());
  }
}

TEST_CASE("the_loss_of_equal_logits_is_the_logarithm_of_the_classes") {
  const NetworkSpec network = network_of({dense(4)}, {1, 2, 2}, 4);
  const RandomBatch batch(network, 5, 1);
  const std::vector<float> zero(network.layout.size());
  const auto metric = backend_of(Backend::kReference, network, 5)->evaluate(zero, batch.all());
  CHECK(metric->loss_sum == Approx(5.0 * std::log(4.0)));
  CHECK(metric->samples == 5);
  // The first of equal logits is the guess.
  CHECK(metric->correct == std::count(batch.labels.begin(), batch.labels.end(), 0));
}

TEST_CASE("the_gradient_of_a_smoothed_loss_is_its_finite_difference") {
  NetworkSpec network = network_of({conv(3, 3), relu(), dense(4)}, {2, 4, 4}, 4);
  network.label_smoothing = 0.3;
  check_gradient(network);
}

// Logits 1, 2, 0: log sum exp = 2.407606. Label 0, e 0.3: t = 0.8, 0.1, 0.1; the loss is that less 0.8 + 0.2.
TEST_CASE("a_smoothed_loss_is_that_of_its_target_and_evaluations_have_the_plain_one", "[both]") {
  const std::vector<float> logits = {1, 2, 0};
  const std::vector<Label> labels = {0};
  std::vector<float> difference(3);
  const Metric smoothed = softmax_cross_entropy<float>(logits, labels, 3, difference, 0.3);
  CHECK(smoothed.loss_sum == Approx(1.407606));
  CHECK(difference[0] == Approx(std::exp(1 - 2.407606) - 0.8));
  CHECK(difference[1] == Approx(std::exp(2 - 2.407606) - 0.1));
  CHECK(difference[2] == Approx(std::exp(0 - 2.407606) - 0.1));
  CHECK(softmax_cross_entropy<float>(logits, labels, 3, {}).loss_sum == Approx(1.407606));  // 2.407606 - 1

  NetworkSpec network = network_of({dense(4)}, {1, 2, 2}, 4);
  const RandomBatch batch(network, 5, 1);
  const std::vector<float> parameters = random_parameters(network, 3);
  std::vector<float> gradient(parameters.size());
  for (const Backend kind : {Backend::kReference, Backend::kOnednn}) {
    network.label_smoothing = 0.0;
    const auto plain = backend_of(kind, network, 5)->evaluate(parameters, batch.all());
    network.label_smoothing = 0.5;
    const auto backend = backend_of(kind, network, 5);
    CHECK(backend->evaluate(parameters, batch.all())->loss_sum == plain->loss_sum);
    CHECK(backend->gradient(parameters, batch.all(), gradient, whole_at_the_end)->loss_sum !=
          Approx(plain->loss_sum));
  }
}

TEST_CASE("of_a_thousand_classes_the_label_is_the_one_that_it_is", "[both]") {
  const NetworkSpec network = network_of({dense(1000)}, {1, 1, 1}, 1000);
  const std::vector<float> image{1};
  std::vector<float> parameters(2000, 0.0F);
  parameters[1999] = 3;  // the bias of the last
  const std::vector<Label> labels{999};
  const std::vector<std::int64_t> zero{0};
  const Batch batch{image, labels, zero, zero};
  for (const Backend kind : {Backend::kReference, Backend::kOnednn}) {
    std::vector<float> gradient(parameters.size());
    const auto metric = backend_of(kind, network, 1)->gradient(parameters, batch, gradient, whole_at_the_end);
    REQUIRE(metric.is_ok());
    CHECK(metric->correct == 1);
    CHECK(metric->loss_sum == Approx(std::log(std::exp(3.0) + 999) - 3));
    const auto least = std::min_element(gradient.begin() + 1000, gradient.end());
    CHECK(least - gradient.begin() == 1999);
  }
}

// bfloat16 has 8 bits: near 1 they are 2^-7 apart, near 3 2^-6. Each number here is rounded to its neighbour,
// and the product 3 x 1 and the bias to 3 again.
TEST_CASE("a_reference_may_keep_its_activations_as_bfloat16") {
  const NetworkSpec network = network_of({dense(2)}, {1, 1, 1}, 2);
  const std::vector<float> image{1.0F + 0x1.0p-9F}, parameters{3.0F + 0x1.0p-7F, 0.0F, 0x1.0p-10F, 0.5F};
  const std::vector<Label> labels{0};
  const std::vector<std::int64_t> zero{0};
  const Batch batch{image, labels, zero, zero};
  const auto loss_of = [&](Activations activations) {
    const auto reference = std::move(make_reference_backend(network, 1, 5, activations)).value();
    std::vector<float> gradient(parameters.size());
    const auto metric = reference->gradient(parameters, batch, gradient, whole_at_the_end);
    REQUIRE(metric.is_ok());
    CHECK(gradient[2] == Approx(-gradient[3]).epsilon(1e-6));  // p - 1 and 1 - p
    CHECK(reference->evaluate(parameters, batch)->loss_sum == metric->loss_sum);
    return std::pair{metric->loss_sum, gradient[3]};
  };
  const auto [loss, difference] = loss_of(Activations::kBfloat16);
  CHECK(loss == Approx(std::log1p(std::exp(0.5 - 3.0))).epsilon(1e-12));
  const double exactly = 1.0 / (1.0 + std::exp(2.5));
  CHECK(difference == Approx(exactly).margin(0x1.0p-12));
  CHECK(std::ldexp(difference, 11) ==
        std::round(std::ldexp(difference, 11)));  // 8 bits of what is below 2^-3
  const double logit = (1.0 + 0x1.0p-9) * (3.0 + 0x1.0p-7) + 0x1.0p-10;
  CHECK(loss_of(Activations::kDouble).first == Approx(std::log1p(std::exp(0.5 - logit))).epsilon(1e-12));
}

TEST_CASE("the_mean_of_equal_mini_batches_is_the_large_one", "[both]") {
  const NetworkSpec network =
      network_of({conv(4, 3), relu(), pool(2), dense(8), relu(), dropout(0.4), dense(5)}, {3, 8, 8}, 5);
  const RandomBatch batch(network, 12, 2);
  const std::vector<float> parameters = random_parameters(network, 2);
  for (const Backend kind : {Backend::kReference, Backend::kOnednn}) {
    std::vector<float> whole(parameters.size());
    REQUIRE(
        backend_of(kind, network, 12)->gradient(parameters, batch.all(), whole, whole_at_the_end).is_ok());
    const auto small = backend_of(kind, network, 4);
    std::vector<float> part(parameters.size());
    std::vector<double> mean(parameters.size());
    for (int k = 0; k < 3; ++k) {
      REQUIRE(small->gradient(parameters, batch.slice(4 * k, 4), part, whole_at_the_end).is_ok());
      for (std::size_t i = 0; i < part.size(); ++i) mean[i] += part[i] / 3.0;
    }
    // Float sums in another order: a few units of 6e-8.
    CHECK(relative_l2(mean, whole, 0, network.layout.size()) < 1e-6);
  }
}

TEST_CASE("a_mini_batch_in_parts_has_the_gradient_of_the_whole_and_its_metric", "[both]") {
  const NetworkSpec network =
      network_of({conv(4, 3), relu(), pool(2), dense(8), relu(), dropout(0.4), dense(5)}, {3, 8, 8}, 5);
  const std::vector<float> parameters = random_parameters(network, 2);
  const std::int64_t samples = GENERATE(12, 11, 2);  // parts of 3; the last of two; two of one
  const RandomBatch batch(network, samples, 2);
  for (const Backend kind : {Backend::kReference, Backend::kOnednn}) {
    const MakeBackend make = [&](const NetworkSpec& spec, std::int64_t size, std::uint64_t seed) {
      return make_backend(kind, spec, size, seed);
    };
    const auto whole_backend = make(network, samples, 5).value();
    const auto in_parts = accumulating(make, 4)(network, samples, 5).value();
    std::vector<float> whole(parameters.size());
    std::vector<float> sum(parameters.size(), std::nanf(""));
    std::vector<std::vector<float>> reported;
    std::vector<std::int64_t> begins;
    const auto final_from = [&](std::int64_t begin) {
      begins.push_back(begin);
      reported.emplace_back(sum.begin() + begin, sum.end());
    };
    const auto expected = whole_backend->gradient(parameters, batch.all(), whole, whole_at_the_end);
    const auto got = in_parts->gradient(parameters, batch.all(), sum, final_from);
    REQUIRE((expected.is_ok() && got.is_ok()));
    CHECK(got->samples == samples);
    CHECK(got->correct == expected->correct);
    CHECK(got->loss_sum == Approx(expected->loss_sum).epsilon(1e-6));
    const std::vector<double> exact(whole.begin(), whole.end());
    CHECK(relative_l2(sum, exact, 0, network.layout.size()) < 1e-6);
    // Final, from the last layer to the first, while the last part is computed.
    REQUIRE(begins.size() == 3);
    CHECK(begins.back() == 0);
    for (std::size_t k = 0; k < begins.size(); ++k) {
      CHECK(reported[k] == std::vector<float>(sum.begin() + begins[k], sum.end()));
    }
    const auto evaluated = in_parts->evaluate(parameters, batch.all());
    CHECK(evaluated->loss_sum ==
          Approx(whole_backend->evaluate(parameters, batch.all())->loss_sum).epsilon(1e-6));
  }
}

TEST_CASE("each_layer_is_final_once_the_last_first_and_nothing_touches_it_afterwards", "[both]") {
  const auto layers =
      GENERATE(std::vector<LayerConfig>{conv(4, 3), relu(), pool(2), dropout(0.3), conv(6, 3), relu(),
                                        pool(2), dense(8), relu(), dense(5)},
               std::vector<LayerConfig>{relu(), conv(4, 3, 2), pool(2), flatten(), dense(5)},
               std::vector<LayerConfig>{named_layer("a", conv(4, 3)), relu(), named_layer("b", conv(4, 3)),
                                        add({"b", "a"}), relu(), dense(5)},
               std::vector<LayerConfig>{conv_without_bias(4, 3), batch_norm(), relu(), conv(4, 3),
                                        batch_norm(), dense(5)},
               std::vector<LayerConfig>{dense(5)});
  const std::int64_t samples = GENERATE(1, 4);  // of 4: the mini-batch may be smaller
  const NetworkSpec network = network_of(layers, {3, 8, 8}, 5);
  const RandomBatch batch(network, samples, 2);
  const std::vector<float> parameters = random_parameters(network, 2);
  for (const Backend kind : {Backend::kReference, Backend::kOnednn}) {
    CAPTURE(static_cast<int>(kind));
    check_finals(*backend_of(kind, network, 4), network, parameters, batch.all());
  }
}

TEST_CASE("dropout_drops_its_share_and_keeps_the_mean") {
  // A network whose logit 0 counts its kept inputs: 4000 ones, weights 1 for logit 0.
  const NetworkSpec network = network_of({dropout(0.25), dense(2)}, {1, 40, 100}, 2);
  RandomBatch batch(network, 1, 3);
  std::fill(batch.images.begin(), batch.images.end(), 1.0F);
  std::vector<float> parameters(network.layout.size());
  for (const Backend kind : {Backend::kReference, Backend::kOnednn}) {
    std::vector<float> gradient(parameters.size());
    REQUIRE(
        backend_of(kind, network, 1)->gradient(parameters, batch.all(), gradient, whole_at_the_end).is_ok());
    // At zero parameters the gradient of a weight is +-0.5 * mask: 0 where dropped, else 0.5 / 0.75.
    const auto dropped = std::count(gradient.begin(), gradient.begin() + 4000, 0.0F);
    CHECK(std::abs(dropped - 1000) < 5 * 27);  // binomial, standard deviation sqrt(4000 * 0.25 * 0.75) = 27.4
    const auto kept = std::find_if(gradient.begin(), gradient.end(), [](float g) { return g != 0.0F; });
    CHECK(std::abs(*kept) == Approx(0.5 / 0.75));
  }
}

TEST_CASE("a_sample_meets_the_same_dropout_in_any_company_and_another_in_another_epoch_or_seed") {
  const NetworkSpec network = network_of({dense(30), dropout(0.5), dense(2)}, {1, 3, 3}, 2);
  RandomBatch batch(network, 4, 4);
  const std::vector<float> parameters = random_parameters(network, 4);
  const auto backend = backend_of(Backend::kOnednn, network, 4, 5);
  const auto loss_of = [&](NetworkBackend& with, const Batch& samples) {
    std::vector<float> gradient(parameters.size());
    return with.gradient(parameters, samples, gradient, whole_at_the_end)->loss_sum;
  };
  double alone = 0.0;
  for (int n = 0; n < 4; ++n) alone += loss_of(*backend, batch.slice(n, 1));
  const double together = loss_of(*backend, batch.all());
  CHECK(together == Approx(alone).epsilon(1e-6));
  CHECK(loss_of(*backend_of(Backend::kOnednn, network, 4, 6), batch.all()) != Approx(together).epsilon(1e-6));
  ++batch.epochs[2];
  CHECK(loss_of(*backend, batch.all()) != Approx(together).epsilon(1e-6));
}

// Runs of one seed give the same parameters from release to release: these bits never change. FNV-1a of the
// gradient's bytes, over four samples.
TEST_CASE("the_gradients_of_the_ready_made_networks_keep_their_bits") {
  const auto digest_of = [](const std::string& model, double rate) {
    TrainSection train;
    train.model = model;
    train.dropout = rate;
    const NetworkSpec network = build_network(train).value();
    const std::vector<float> parameters = random_parameters(network, 7);
    std::vector<float> gradient(parameters.size());
    REQUIRE(backend_of(Backend::kReference, network, 4)
                ->gradient(parameters, RandomBatch(network, 4, 7).all(), gradient, whole_at_the_end)
                .is_ok());
    const auto* const bytes = reinterpret_cast<const char*>(gradient.data());
    return hex(fnv1a({bytes, gradient.size() * sizeof(float)}, kFnv1aBasis));
  };
  CHECK(digest_of("cifar_cnn_small", 0.0) == "dd47026616fed6cf");
  CHECK(digest_of("cifar_cnn_small", 0.5) == "0983a9b37c45532e");
  CHECK(digest_of("cifar_cnn", 0.0) == "19b2823246430b28");
  CHECK(digest_of("cifar_cnn", 0.5) == "9b2b3e48d11aa2b9");
}
