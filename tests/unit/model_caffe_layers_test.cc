// Layers and losses that Caffe's networks need, against loops written from Caffe's own definitions
// (src/caffe/layers/*_layer.cpp), finite differences and oneDNN; weights that layers share; clipped gradients.
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "tests/unit/model_checks.h"
#include "worker/model/accumulating.h"
#include "worker/model/layers/reference_layer.h"

using namespace paceline;

namespace {

LayerConfig caffes_batch_norm() {
  return {.kind = LayerKind::kBatchNorm, .epsilon = 1e-5, .momentum = 0.001, .affine = false, .debias = true};
}
LayerConfig scale(bool bias = true) { return {.kind = LayerKind::kScale, .bias = bias}; }
LayerConfig slice(std::int64_t part, std::int64_t parts, std::vector<std::int64_t> points = {}) {
  return {.kind = LayerKind::kSlice, .part = part, .parts = parts, .points = std::move(points)};
}
LayerConfig dense_without_bias(std::int64_t out) {
  return {.kind = LayerKind::kDense, .out = out, .bias = false};
}
LayerConfig loss(LayerKind kind, std::vector<std::string> from, double weight = 1.0) {
  return {.kind = kind, .from = std::move(from), .loss_weight = weight};
}
LayerConfig sharing(LayerConfig layer, std::string with) {
  layer.weights_of = std::move(with);
  return layer;
}

// One layer of the reference over a mini-batch, forward and back.
struct Passed {
  Values out;
  std::vector<Values> in_differences;
  Values gradient;
  std::int64_t hits = 0;
};
struct Given {
  std::vector<Values> in;
  Values parameters;
  Values out_difference;
  std::vector<Label> labels;
  Mode mode = Mode::kTraining;
};
Passed pass_through(const Layer& layer, std::int64_t samples, const Given& given) {
  Passed passed;
  passed.out.resize(static_cast<std::size_t>(samples * layer.out.size()));
  passed.gradient.assign(given.parameters.size(), 0.0);
  Batch batch;
  batch.labels = given.labels;
  const ReferencePass pass{
      given.mode,  samples, batch, 1, given.parameters, passed.gradient, [](std::span<double>) {},
      &passed.hits};
  std::vector<const Values*> inputs;
  for (const Values& values : given.in) {
    inputs.push_back(&values);
    passed.in_differences.emplace_back(values.size(), 0.0);
  }
  const auto computed = make_reference_layer(layer, 0);
  computed->forward(pass, inputs, passed.out);
  if (given.mode == Mode::kTraining) {
    computed->backward(pass, inputs, passed.out, given.out_difference, passed.in_differences);
  }
  return passed;
}

// The only layer of a network of one, or of a network whose inputs are `parts` equal slices of the image.
Layer layer_of(LayerConfig config, const Shape& shape, int inputs = 1, std::int64_t classes = kAnyClasses) {
  std::vector<LayerConfig> layers;
  if (inputs > 1) {
    config.from.clear();
    for (int i = 0; i < inputs; ++i) {
      layers.push_back(named_layer("part" + std::to_string(i), slice(i, inputs), {"input"}));
      config.from.push_back(layers.back().name);
    }
  }
  layers.push_back(std::move(config));
  const Shape whole{shape.channels * inputs, shape.height, shape.width};
  return build_network(train_with(layers), whole, classes).value().layers.back();
}

const std::vector<std::vector<LayerConfig>>& networks_for_caffe() {
  static const std::vector<std::vector<LayerConfig>> kNetworks = {
      {conv_without_bias(8, 3),
       caffes_batch_norm(),
       scale(),
       relu(),
       conv_without_bias(6, 3),
       caffes_batch_norm(),
       {.kind = LayerKind::kSigmoid},
       pool(2),
       dense(10)},
      {conv(8, 3),
       relu(),
       caffes_batch_norm(),
       conv(6, 3),
       scale(false),
       relu(),
       dense_without_bias(12),
       {.kind = LayerKind::kTanh},
       dense(10)},
      // Parts of a picture and of a layer; sums with coefficients, products, maxima.
      {named_layer("first", slice(0, 2, {1}), {"input"}), named_layer("rest", slice(1, 2, {1}), {"input"}),
       named_layer("a", conv(8, 3), {"first"}), named_layer("b", conv(8, 3), {"rest"}),
       named_layer("sum", {.kind = LayerKind::kAdd, .from = {"a", "b"}, .coefficients = {0.5, -2.0}}),
       named_layer("product", {.kind = LayerKind::kMultiply, .from = {"a", "b", "sum"}}),
       named_layer("largest", {.kind = LayerKind::kMaximum, .from = {"a", "product", "b"}}),
       named_layer("left", slice(0, 4), {"largest"}), named_layer("right", slice(3, 4), {"largest"}),
       concat({"left", "right", "sum"}), dense(10)},
      // Two networks with the same weights, of the kind siamese.
      {named_layer("one", slice(0, 3), {"input"}),
       named_layer("other", slice(1, 3), {"input"}),
       named_layer("c", conv(6, 3), {"one"}),
       relu(),
       named_layer("s", scale()),
       named_layer("f", dense(5)),
       named_layer("ends", {.kind = LayerKind::kTanh}),
       named_layer("c_p", sharing(conv(6, 3), "c"), {"other"}),
       relu(),
       sharing(scale(), "s"),
       sharing(dense(5), "f"),
       named_layer("ends_p", {.kind = LayerKind::kTanh}),
       {.kind = LayerKind::kContrastiveLoss, .from = {"ends", "ends_p"}, .margin = 2.0, .legacy = true}},
      // The same layer twice in one chain, as in a recurrent one.
      {named_layer("first", dense(10)),
       {.kind = LayerKind::kTanh},
       named_layer("again", dense(10)),
       {.kind = LayerKind::kTanh},
       sharing(dense(10), "again"),
       {.kind = LayerKind::kTanh},
       sharing(dense(10), "again")},
      // Of the kind autoencoder: the picture is what is aimed at.
      {named_layer("flat", flatten()),
       dense(12),
       {.kind = LayerKind::kSigmoid},
       named_layer("decoded", dense(147)),
       loss(LayerKind::kSigmoidLoss, {"decoded", "flat"}),
       named_layer("picture", {.kind = LayerKind::kSigmoid}, {"decoded"}),
       loss(LayerKind::kEuclideanLoss, {"picture", "flat"}, 0.3)},
      // Side losses, of the kind GoogLeNet, and one number against the label.
      {named_layer("trunk", conv(6, 3)),
       relu(),
       named_layer("side", dense(10)),
       loss(LayerKind::kSoftmaxLoss, {"side"}, 0.3),
       named_layer("deep", conv(6, 3), {"relu1"}),
       relu(),
       named_layer("scores", dense(10)),
       {.kind = LayerKind::kSoftmaxLoss,
        .from = {"scores"},
        .ignore_label = 3,
        .divisor = LossDivisor::kValid,
        .top_k = 2},
       named_layer("number", dense(1), {"deep"}),
       loss(LayerKind::kEuclideanLoss, {"number"}, 0.1)},
  };
  return kNetworks;
}

}  // namespace

TEST_CASE("batch_norm_and_what_it_measures_are_caffes") {
  const Layer layer = layer_of(caffes_batch_norm(), {3, 2, 2});
  REQUIRE(layer.weight.size == 0);
  constexpr std::int64_t kSamples = 4;
  const Values x = noise(kSamples * 12, 3);
  const Values d = noise(kSamples * 12, 4);
  const Passed got = pass_through(layer, kSamples, {{x}, Values(7, 0.0), d, {}});
  const auto channel = [](std::size_t i) { return i / 4 % 3; };
  Values mean(3, 0.0), variance(3, 0.0), dy(3, 0.0), dyy(3, 0.0);
  for (std::size_t i = 0; i < x.size(); ++i) mean[channel(i)] += x[i] / 16;
  for (std::size_t i = 0; i < x.size(); ++i)
    variance[channel(i)] += std::pow(x[i] - mean[channel(i)], 2) / 16;
  Values y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i] = (x[i] - mean[channel(i)]) / std::sqrt(variance[channel(i)] + 1e-5);
    dy[channel(i)] += d[i] / 16;
    dyy[channel(i)] += d[i] * y[i] / 16;
  }
  Values dx(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    dx[i] = (d[i] - dy[channel(i)] - dyy[channel(i)] * y[i]) / std::sqrt(variance[channel(i)] + 1e-5);
  }
  check_close(got.out, y);
  check_close(got.in_differences[0], dx);
  // Means, unbiased variances, and that there was one measurement.
  Values measured = mean;
  for (const double each : variance) measured.push_back(each * 16 / 15);
  measured.push_back(1.0);
  check_close(got.gradient, measured);
}

TEST_CASE("running_statistics_are_caffes_sums_over_their_count") {
  const Layer layer = layer_of(caffes_batch_norm(), {1, 1, 2});
  // Caffe's three blobs over some measurements, and ours: a part of the way to each.
  double sum = 0.0, squares = 0.0, count = 0.0;
  Values buffers(3, 0.0);
  for (const double measured : {2.0, -1.0, 4.0}) {
    sum = 0.999 * sum + measured;
    squares = 0.999 * squares + measured * measured;
    count = 0.999 * count + 1.0;
    const Values now = {measured, measured * measured, 1.0};
    for (std::size_t i = 0; i < 3; ++i) buffers[i] += 0.001 * (now[i] - buffers[i]);
  }
  const auto evaluated = [&](const Values& parameters) {
    return pass_through(layer, 1, {{{1.5, 3.0}}, parameters, {}, {}, Mode::kEvaluation}).out;
  };
  const double deviation = std::sqrt(squares / count + 1e-5);
  check_close(evaluated(buffers), {(1.5 - sum / count) / deviation, (3.0 - sum / count) / deviation});
  // Nothing measured yet: both are 0.
  check_close(evaluated({0, 0, 0}), {1.5 / std::sqrt(1e-5), 3.0 / std::sqrt(1e-5)});
}

TEST_CASE("scales_slices_products_and_maxima_are_caffes") {
  const Values in = {1, 2, 3, 4, 5, 6, 7, 8};  // two samples of two channels of two places
  const Passed scaled =
      pass_through(layer_of(scale(), {2, 1, 2}), 2, {{in}, {2, -1, 10, 20}, {1, 1, 1, 1, 1, 1, 1, 2}, {}});
  check_close(scaled.out, {12, 14, 17, 16, 20, 22, 13, 12});
  check_close(scaled.in_differences[0], {2, 2, -1, -1, 2, 2, -1, -2});
  check_close(scaled.gradient, {1 + 2 + 5 + 6, 3 + 4 + 7 + 16, 4, 5});
  const Passed second = pass_through(layer_of(slice(1, 2), {2, 1, 2}), 2, {{in}, {}, {1, 2, 3, 4}, {}});
  check_close(second.out, {3, 4, 7, 8});
  check_close(second.in_differences[0], {0, 0, 1, 2, 0, 0, 3, 4});
  const std::vector<Values> two = {{1, 5, 2}, {3, 5, -1}};
  const Passed product =
      pass_through(layer_of({.kind = LayerKind::kMultiply}, {3, 1, 1}, 2), 1, {two, {}, {1, 10, 100}, {}});
  check_close(product.out, {3, 25, -2});
  check_close(product.in_differences[0], {3, 50, -100});
  check_close(product.in_differences[1], {1, 50, 200});
  // Of equal ones the first.
  const Passed largest =
      pass_through(layer_of({.kind = LayerKind::kMaximum}, {3, 1, 1}, 2), 1, {two, {}, {1, 10, 100}, {}});
  check_close(largest.out, {3, 5, 2});
  check_close(largest.in_differences[0], {0, 10, 100});
  check_close(largest.in_differences[1], {1, 0, 0});
}

TEST_CASE("losses_are_caffes") {
  constexpr std::int64_t kSamples = 5;
  constexpr std::int64_t kSize = 4;
  const Values a = noise(kSamples * kSize, 6);
  const Values b = noise(kSamples * kSize, 7);
  const Values seeds(kSamples, 1.0 / kSamples);  // a weight of 1
  const std::vector<Label> labels = {0, 3, 1, 2, 1};
  const auto mean = [](const Values& of) { return std::accumulate(of.begin(), of.end(), 0.0) / kSamples; };
  const Shape shape{kSize, 1, 1};

  // sigmoid_cross_entropy_loss_layer.cpp: the sum over all elements / num.
  const Passed sigmoid = pass_through(layer_of({.kind = LayerKind::kSigmoidLoss}, shape, 2), kSamples,
                                      {{a, b}, {}, seeds, labels});
  double expected = 0.0;
  Values differences;
  for (std::size_t i = 0; i < a.size(); ++i) {
    expected -=
        a[i] * (b[i] - (a[i] >= 0 ? 1 : 0)) - std::log(1 + std::exp(a[i] - 2 * a[i] * (a[i] >= 0 ? 1 : 0)));
    differences.push_back((1 / (1 + std::exp(-a[i])) - b[i]) / kSamples);
  }
  CHECK(mean(sigmoid.out) == Approx(expected / kSamples));
  check_close(sigmoid.in_differences[0], differences);
  check_close(sigmoid.in_differences[1], Values(a.size(), 0.0));

  // euclidean_loss_layer.cpp: half the sum of squares / num.
  const Passed euclidean = pass_through(layer_of({.kind = LayerKind::kEuclideanLoss}, shape, 2), kSamples,
                                        {{a, b}, {}, seeds, labels});
  expected = 0.0;
  differences.clear();
  for (std::size_t i = 0; i < a.size(); ++i) {
    expected += (a[i] - b[i]) * (a[i] - b[i]) / kSamples / 2;
    differences.push_back((a[i] - b[i]) / kSamples);
  }
  CHECK(mean(euclidean.out) == Approx(expected));
  check_close(euclidean.in_differences[0], differences);
  for (double& each : differences) each = -each;
  check_close(euclidean.in_differences[1], differences);

  // contrastive_loss_layer.cpp, both versions; two margins, so that pairs lie on both sides of it.
  for (const bool legacy : {false, true}) {
    const double margin = legacy ? 9.0 : 3.0;
    const Passed contrastive = pass_through(
        layer_of({.kind = LayerKind::kContrastiveLoss, .margin = margin, .legacy = legacy}, shape, 2),
        kSamples, {{a, b}, {}, seeds, labels});
    expected = 0.0;
    differences.clear();
    for (std::int64_t n = 0; n < kSamples; ++n) {
      double square = 0.0;
      for (std::int64_t i = n * kSize; i < (n + 1) * kSize; ++i) {
        square += (a[static_cast<std::size_t>(i)] - b[static_cast<std::size_t>(i)]) *
                  (a[static_cast<std::size_t>(i)] - b[static_cast<std::size_t>(i)]);
      }
      const double distance = std::sqrt(square);
      const bool alike = labels[static_cast<std::size_t>(n)] != 0;
      double beta = 1.0 / kSamples;
      if (alike) {
        expected += square;
      } else if (legacy) {
        expected += std::max(margin - square, 0.0);
        beta = margin - square > 0 ? -beta : 0.0;
      } else {
        expected += std::pow(std::max(margin - distance, 0.0), 2);
        beta = margin - distance > 0 ? -beta * (margin - distance) / (distance + 1e-4) : 0.0;
      }
      for (std::int64_t i = n * kSize; i < (n + 1) * kSize; ++i) {
        differences.push_back(beta * (a[static_cast<std::size_t>(i)] - b[static_cast<std::size_t>(i)]));
      }
    }
    CHECK(mean(contrastive.out) == Approx(expected / kSamples / 2));
    check_close(contrastive.in_differences[0], differences);
    for (double& each : differences) each = -each;
    check_close(contrastive.in_differences[1], differences);
  }
}

TEST_CASE("ignored_labels_neither_count_nor_divide") {
  constexpr std::int64_t kSamples = 4;
  const Values scores = noise(kSamples * 3, 8);
  const std::vector<Label> labels = {2, 255, 0, 255};
  const auto softmax = [&](LossDivisor divisor) {
    return pass_through(
        layer_of({.kind = LayerKind::kSoftmaxLoss, .ignore_label = 255, .divisor = divisor}, {3, 1, 1}),
        kSamples, {{scores}, {}, Values(kSamples, 1.0 / kSamples), labels});
  };
  // softmax_loss_layer.cpp, normalization VALID, then BATCH_SIZE.
  for (const auto& [divisor, count] :
       {std::pair(LossDivisor::kValid, 2.0), std::pair(LossDivisor::kSamples, 4.0)}) {
    double expected = 0.0;
    Values differences(scores.size(), 0.0);
    for (const std::size_t n : {std::size_t{0}, std::size_t{2}}) {
      double sum = 0.0;
      for (std::size_t k = 0; k < 3; ++k) sum += std::exp(scores[n * 3 + k]);
      expected -= std::log(std::exp(scores[n * 3 + labels[n]]) / sum) / count;
      for (std::size_t k = 0; k < 3; ++k) {
        differences[n * 3 + k] = (std::exp(scores[n * 3 + k]) / sum - (k == labels[n] ? 1 : 0)) / count;
      }
    }
    const Passed got = softmax(divisor);
    CHECK(std::accumulate(got.out.begin(), got.out.end(), 0.0) / kSamples == Approx(expected));
    check_close(got.in_differences[0], differences);
  }
}

TEST_CASE("a_hit_is_a_label_among_the_k_largest_and_ties_go_to_the_first") {
  const Values scores = {5, 4, 3, /**/ 1, 1, 1, /**/ 0, 9, std::nan(""), /**/ 3, 2, 1};
  const std::vector<Label> labels = {1, 1, 1, 2};
  const auto hits = [&](std::int64_t k) {
    const Layer layer = layer_of({.kind = LayerKind::kSoftmaxLoss, .top_k = k}, {3, 1, 1});
    return pass_through(layer, 4, {{scores}, {}, {}, labels, Mode::kEvaluation}).hits;
  };
  CHECK(hits(1) == 0);
  CHECK(hits(2) == 2);
  CHECK(hits(3) == 3);  // never one with a NaN
}

TEST_CASE("networks_of_these_layers_agree_with_finite_differences") {
  for (std::size_t i = 0; i < networks_for_caffe().size(); ++i) {
    INFO("network " << i);
    check_gradient(network_of(networks_for_caffe()[i], {3, 7, 7}, 10));
  }
}

TEST_CASE("networks_of_these_layers_agree_with_the_reference_on_onednn") {
  for (std::size_t i = 0; i < networks_for_caffe().size(); ++i) {
    INFO("network " << i);
    const NetworkSpec network = network_of(networks_for_caffe()[i], {3, 7, 7}, 10);
    check_against_reference(network, 4, 4, 180 + i);
    check_against_reference(network, 8, 5, 190 + i);
  }
}

// Twice with one back end: what is added up in place begins anew.
TEST_CASE("a_second_step_does_not_see_the_first") {
  for (const std::size_t i : {2U, 3U, 5U, 6U}) {
    INFO("network " << i);
    const NetworkSpec network = network_of(networks_for_caffe()[i], {3, 7, 7}, 10);
    const RandomBatch batch(network, 4, 21);
    const std::vector<float> parameters = random_parameters(network, 21);
    const auto backend = backend_of(Backend::kOnednn, network, 4);
    std::vector<float> first(parameters.size()), second(parameters.size());
    REQUIRE(backend->gradient(parameters, batch.all(), first, whole_at_the_end).is_ok());
    REQUIRE(backend->gradient(parameters, batch.all(), second, whole_at_the_end).is_ok());
    CHECK(first == second);
  }
}

TEST_CASE("what_is_shared_is_final_once_the_first_layer_with_it_is_through") {
  const NetworkSpec network = network_of(networks_for_caffe()[3], {3, 7, 7}, 10);
  CHECK(network.layout.tensors().size() == 6);  // two each of c, s and f
  const RandomBatch batch(network, 4, 22);
  const std::vector<float> parameters = random_parameters(network, 22);
  for (const Backend kind : {Backend::kReference, Backend::kOnednn}) {
    const auto backend = backend_of(kind, network, 4);
    std::vector<float> gradient(parameters.size());
    std::vector<std::int64_t> finals;
    std::vector<std::vector<float>> seen;
    REQUIRE(backend
                ->gradient(parameters, batch.all(), gradient,
                           [&](std::int64_t from) {
                             finals.push_back(from);
                             seen.emplace_back(gradient.begin() + from, gradient.end());
                           })
                .is_ok());
    REQUIRE(finals.size() == 3);
    for (std::size_t i = 0; i < finals.size(); ++i) {
      CHECK(finals[i] == network.layout.tensors()[4 - 2 * i].offset);
      CHECK(seen[i] == std::vector<float>(gradient.begin() + finals[i], gradient.end()));
    }
  }
}

TEST_CASE("a_layer_that_cannot_be_is_refused") {
  const auto fault = [](std::vector<LayerConfig> layers) {
    const auto network = build_network(train_with(std::move(layers)), {3, 7, 7}, 10);
    return network.is_ok() ? "accepted" : network.status().message();
  };
  CHECK(fault({slice(0, 2), dense(10)}) ==
        "train.layers[0]: slice: parts 2 of 3x7x7, expected a number that divides its channels");
  CHECK_THAT(fault({slice(0, 2, {3}), dense(10)}), Catch::Contains("points that are no cuts of 3x7x7"));
  CHECK_THAT(fault({conv(4, 3), sharing(conv(4, 3), "conv1"), dense(10)}),
             Catch::Contains("weights_of: conv1.weight is 4x3x3x3, expected 4x4x3x3"));
  CHECK_THAT(fault({sharing(dense(10), "nobody")}), Catch::Contains("there is no nobody.weight"));
  CHECK_THAT(fault({named_layer("f", dense(7)), loss(LayerKind::kSoftmaxLoss, {"f"})}),
             Catch::Contains("scores of out 7, expected 10 (the number of classes)"));
  CHECK_THAT(fault({named_layer("f", dense(7)), loss(LayerKind::kEuclideanLoss, {"f"})}),
             Catch::Contains("one input of 7x1x1, expected two, or one number"));
  CHECK_THAT(
      fault({named_layer("f", dense(10)), named_layer("l", loss(LayerKind::kSoftmaxLoss, {"f"})), relu()}),
      Catch::Contains("from l, which is a loss"));
  CHECK_THAT(fault({named_layer("f", dense(10)), dense(10), loss(LayerKind::kSoftmaxLoss, {"f"})}),
             Catch::Contains("no layer reads fc2"));
}

TEST_CASE("labels_are_checked_by_the_losses_that_look_at_them") {
  const NetworkSpec network = network_of(
      {named_layer("f", dense(10)), {.kind = LayerKind::kSoftmaxLoss, .from = {"f"}, .ignore_label = 255}},
      {3, 2, 2}, 10);
  RandomBatch batch(network, 2, 5);
  const auto backend = backend_of(Backend::kReference, network, 2);
  const std::vector<float> parameters = random_parameters(network, 5);
  batch.labels[1] = 255;
  CHECK(backend->evaluate(parameters, batch.all()).is_ok());
  batch.labels[1] = 10;
  CHECK(backend->evaluate(parameters, batch.all()).status().message() ==
        "mini-batch with label 10 at position 1, expected less than 10");
}

TEST_CASE("an_evaluation_divides_by_the_labels_that_count") {
  const auto evaluated = [](Backend kind, std::int64_t ignored, const std::vector<Label>& labels) {
    const NetworkSpec network = network_of({named_layer("f", dense(10)),
                                            {.kind = LayerKind::kSoftmaxLoss,
                                             .from = {"f"},
                                             .ignore_label = ignored,
                                             .divisor = LossDivisor::kValid}},
                                           {3, 2, 2}, 10);
    RandomBatch batch(network, std::ssize(labels), 5);
    batch.labels = labels;
    const Metric metric =
        backend_of(kind, network, 4)->evaluate(random_parameters(network, 5), batch.all()).value();
    CHECK(metric.samples == std::ssize(labels));
    return metric.loss_sum / static_cast<double>(metric.samples);
  };
  // -1 as a label of 16 bits has it.
  for (const auto& [ignored, kept_as] : {std::pair(-1, 65535), {255, 255}}) {
    const auto none = static_cast<Label>(kept_as);
    const double all = evaluated(Backend::kReference, ignored, {7, 2});
    CHECK(evaluated(Backend::kReference, ignored, {7, 2, none, none}) == Approx(all));
    CHECK(evaluated(Backend::kOnednn, ignored, {7, 2, none, none}) == Approx(all));
    CHECK(evaluated(Backend::kReference, ignored, {none}) == 0.0);
  }
}

// Caffe's iter_size: passes that are each by themselves, and their mean.
TEST_CASE("each_part_of_a_mini_batch_divides_by_its_own_labels_that_count") {
  const NetworkSpec network = network_of(
      {named_layer("f", dense(10)),
       {.kind = LayerKind::kSoftmaxLoss, .from = {"f"}, .ignore_label = 255, .divisor = LossDivisor::kValid}},
      {3, 2, 2}, 10);
  const std::vector<float> parameters = random_parameters(network, 5);
  RandomBatch batch(network, 4, 5);
  batch.labels = {7, 2, 255, 3};
  const auto gradient = [&](NetworkBackend& backend, const Batch& of) {
    std::vector<float> out(parameters.size());
    REQUIRE(backend.gradient(parameters, of, out, whole_at_the_end).is_ok());
    return out;
  };
  const MakeBackend make = [](const NetworkSpec& spec, std::int64_t size, std::uint64_t seed) {
    return make_backend(Backend::kOnednn, spec, size, seed);
  };
  const std::vector<float> in_parts = gradient(*accumulating(make, 2)(network, 4, 1).value(), batch.all());
  const auto of_part = make(network, 2, 1).value();
  const std::vector<float> first = gradient(*of_part, batch.slice(0, 2));
  const std::vector<float> second = gradient(*of_part, batch.slice(2, 2));
  for (std::size_t i = 0; i < in_parts.size(); ++i) {
    CHECK(in_parts[i] == Approx((first[i] + second[i]) / 2).margin(1e-6));
  }
}
