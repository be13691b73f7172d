// From YAML's list of layers to a network: shapes, parameter ranges, refusals, initial values.
#include <catch2/catch.hpp>

#include "tests/unit/model_fixture.h"

using namespace paceline;

namespace {

// The message of the refusal; fails the test when there is none.
std::string refusal(const TrainSection& train) {
  const auto network = build_network(train);
  REQUIRE_FALSE(network.is_ok());
  CHECK(network.status().code() == StatusCode::kInvalidArgument);
  return network.status().message();
}
std::string refusal(std::vector<LayerConfig> layers) { return refusal(train_with(std::move(layers))); }

std::vector<std::string> shapes_of(const NetworkSpec& network) {
  std::vector<std::string> shapes;
  for (const Layer& layer : network.layers) shapes.push_back(to_string(layer.out));
  return shapes;
}

}  // namespace

TEST_CASE("cifar_cnn_is_two_5x5_convolutions_and_two_dense_layers") {
  TrainSection train;
  train.model = "cifar_cnn";
  const NetworkSpec network = build_network(train).value();
  CHECK(shapes_of(network) == std::vector<std::string>{"64x32x32", "64x32x32", "64x16x16", "64x16x16",
                                                       "64x16x16", "64x8x8", "4096x1x1", "384x1x1", "384x1x1",
                                                       "10x1x1"});
  CHECK(network.layout.size() == (3 * 25 + 1) * 64 + (64 * 25 + 1) * 64 + 4097 * 384 + 385 * 10);
}

TEST_CASE("cifar_cnn_small_lays_its_tensors_one_after_another") {
  const NetworkSpec network = build_network(TrainSection{}).value();
  std::vector<std::string> names;
  for (const Tensor& tensor : network.layout.tensors()) names.push_back(tensor.name);
  CHECK(names == std::vector<std::string>{"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
                                          "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"});
  CHECK(network.layout.tensors()[2].shape == std::vector<std::int64_t>{64, 32, 3, 3});
  CHECK(network.layout.tensors()[4].shape == std::vector<std::int64_t>{128, 4096});
  CHECK(network.layout.size() == 545098);
  CHECK(network.layers[3].weight.offset == 32 * 27 + 32);
  CHECK(network.layers[3].bias.offset == network.layers[3].weight.offset + 64 * 32 * 9);
}

TEST_CASE("dropout_of_a_ready_made_network_stands_before_the_last_dense_layer") {
  TrainSection train;
  train.dropout = 0.25;
  const NetworkSpec network = build_network(train).value();
  const Layer& layer = network.layers[network.layers.size() - 2];
  CHECK(layer.kind == LayerKind::kDropout);
  CHECK(layer.rate == 0.25);
  CHECK(layer.in.size() == 128);
}

TEST_CASE("windows_count_stride_and_padding_as_the_textbook_does") {
  // (32 + 2*2 - 7) / 3 + 1 = 10; (10 + 2*1 - 3) / 2 + 1 = 5, the last column left out.
  const NetworkSpec network = network_of({conv(4, 7, 3, 2), pool(3, 2, 1), dense(10)}, {3, 32, 32}, 10);
  CHECK(shapes_of(network) == std::vector<std::string>{"4x10x10", "4x5x5", "10x1x1"});
}

TEST_CASE("a_layer_that_does_not_fit_is_named_with_its_index") {
  CHECK(refusal({conv(4, 3), pool(2), conv(4, 40, 0, 0), dense(10)}) ==
        "train.layers[2]: conv: kernel 40 is larger than its input 4x16x16 with padding 0");
  CHECK(refusal({conv(0, 3), dense(10)}) == "train.layers[0]: conv: out 0, expected 1 to 65536");
  CHECK(refusal({conv(4, -3), dense(10)}) == "train.layers[0]: conv: kernel -3, expected 1 to 1024");
  CHECK(refusal({conv(4, 3, -1), dense(10)}) == "train.layers[0]: conv: stride -1, expected 1 to 1024");
  CHECK(refusal({pool(2, 2, 2), dense(10)}) == "train.layers[0]: pool: padding 2, expected 0 to 1");
  CHECK(refusal({dense(-1)}) == "train.layers[0]: dense: out -1, expected 1 to 65536");
  CHECK(refusal({flatten(), conv(4, 3), dense(10)}) ==
        "train.layers[1]: conv: needs an image, but its input is a vector of 3072 units");
  CHECK(refusal({dense(8), pool(2), dense(10)}) ==
        "train.layers[1]: pool: needs an image, but its input is a vector of 8 units");
  CHECK(refusal({dropout(1.0), dense(10)}) ==
        "train.layers[0]: dropout: rate 1.000000, expected 0 <= rate < 1");
  CHECK(refusal({dropout(std::nan("")), dense(10)}) ==
        "train.layers[0]: dropout: rate nan, expected 0 <= rate < 1");
}

TEST_CASE("the_last_layer_gives_one_logit_per_class") {
  CHECK(refusal({conv(4, 3), dense(12)}) ==
        "train.layers[1]: dense: out 12 is last, expected dense with out 10 (the number of classes)");
  CHECK(refusal({dense(10), relu()}) ==
        "train.layers[1]: relu: it is last, expected dense with out 10 (the number of classes)");
}

TEST_CASE("a_field_that_a_layer_does_not_read_is_refused") {
  CHECK(refusal({{.kind = LayerKind::kRelu, .out = 3}, dense(10)}) == "train.layers[0]: relu: has no `out`");
  CHECK(refusal({{.kind = LayerKind::kDense, .out = 10, .kernel = 3}}) ==
        "train.layers[0]: dense: has no `kernel`");
  CHECK(refusal({{.kind = LayerKind::kDense, .out = 10, .stride = 1}}) ==
        "train.layers[0]: dense: has no `stride`");
  CHECK(refusal({{.kind = LayerKind::kFlatten, .padding = 0}, dense(10)}) ==
        "train.layers[0]: flatten: has no `padding`");
  CHECK(refusal({{.kind = LayerKind::kDense, .out = 10, .rate = 0.5}}) ==
        "train.layers[0]: dense: has no `rate`");
}

TEST_CASE("model_layers_and_dropout_must_agree") {
  TrainSection unknown;
  unknown.model = "resnet";
  CHECK(refusal(unknown) == "train.model: resnet, expected cifar_cnn, cifar_cnn_small or layers");
  TrainSection both;
  both.layers = {dense(10)};
  CHECK(refusal(both) == "train.layers: given, but train.model is cifar_cnn_small, expected layers");
  CHECK(refusal(std::vector<LayerConfig>{}) == "train.layers: empty, but train.model is layers");
  TrainSection twice = train_with({dense(10)});
  twice.dropout = 0.5;
  CHECK(refusal(twice) ==
        "train.dropout: is for the ready-made networks; give train.layers a dropout layer instead");
  TrainSection whole;
  whole.dropout = 1.0;
  CHECK(refusal(whole) == "train.dropout: 1.000000, expected 0 <= rate < 1");
}

TEST_CASE("a_network_too_large_to_count_is_refused_not_computed_modulo_2_to_the_64") {
  CHECK(refusal({conv(65536, 3, 0, 2), conv(65536, 3), dense(10)}) ==
        "train.layers[0]: conv: its output 65536x34x34 has 75759616 floats per sample; no more than "
        "67108864 can be");
}

TEST_CASE("initial_parameters_are_a_function_of_seed_and_tensor") {
  const NetworkSpec network = build_network(TrainSection{}).value();
  std::vector<float> once(network.layout.size());
  std::vector<float> twice(network.layout.size(), 7.0F);
  std::vector<float> other(network.layout.size());
  initialize_parameters(network, 1, once);
  initialize_parameters(network, 1, twice);
  initialize_parameters(network, 2, other);
  CHECK(once == twice);
  CHECK(once != other);
  // The first tensor does not depend on what follows it.
  const NetworkSpec shorter = network_of({conv(32, 3), relu(), dense(10)}, {3, 32, 32}, 10);
  std::vector<float> alone(shorter.layout.size());
  initialize_parameters(shorter, 1, alone);
  CHECK(std::equal(alone.begin(), alone.begin() + 32 * 27, once.begin()));
}

TEST_CASE("initial_weights_have_a_third_of_the_variance_that_keeps_the_signal_and_biases_are_zero") {
  const NetworkSpec network = build_network(TrainSection{}).value();
  std::vector<float> parameters(network.layout.size());
  initialize_parameters(network, 1, parameters);
  const Layer& fc1 = network.layers[7];
  double squares = 0.0;
  for (std::int64_t i = 0; i < fc1.weight.size; ++i) {
    squares += static_cast<double>(parameters[fc1.weight.offset + i]) * parameters[fc1.weight.offset + i];
  }
  // 524,288 uniform draws: the variance is known to a relative 0.9 / sqrt(n) = 0.12 %; five times that.
  CHECK(squares / static_cast<double>(fc1.weight.size) == Approx(1.0 / (3.0 * 4096.0)).epsilon(0.006));
  for (const Layer& layer : network.layers) {
    for (std::int64_t i = 0; i < layer.bias.size; ++i) REQUIRE(parameters[layer.bias.offset + i] == 0.0F);
  }
}
