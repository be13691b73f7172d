// From YAML's list of layers to a network: shapes, parameter ranges, refusals, initial values.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string_view>

#include "common/hex.h"
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

// As its paper has it: the picture is that of its size.
NetworkSpec residual(const std::string& model, std::int64_t classes = 10, bool zero_gamma = false) {
  TrainSection train;
  train.model = model;
  train.zero_gamma = zero_gamma;
  const std::int64_t side = model == "resnet50" ? 224 : 32;
  return build_network(train, {3, side, side}, classes).value();
}

const Layer& layer_named(const NetworkSpec& network, std::string_view name) {
  return *std::ranges::find(network.layers, name, &Layer::name);
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

TEST_CASE("a_layer_reads_those_that_it_names_or_the_one_before") {
  const NetworkSpec network = network_of(
      {named_layer("stem", conv(8, 3)), relu(), conv(8, 3, 2),
       named_layer("short", conv(8, 1, 2, 0), {"stem"}), named_layer("sum", add({"conv2", "short"})),
       concat({"sum", "sum"}), global_average_pool(), dense(10)},
      {3, 32, 32}, 10);
  CHECK(shapes_of(network) == std::vector<std::string>{"8x32x32", "8x32x32", "8x16x16", "8x16x16", "8x16x16",
                                                       "16x16x16", "16x1x1", "10x1x1"});
  std::vector<std::vector<std::size_t>> inputs;
  std::vector<std::string> names;
  for (const Layer& layer : network.layers) {
    inputs.push_back(layer.inputs);
    names.push_back(layer.name);
  }
  CHECK(inputs == std::vector<std::vector<std::size_t>>{{0}, {1}, {2}, {1}, {3, 4}, {5, 5}, {6}, {7}});
  CHECK(names == std::vector<std::string>{"stem", "relu1", "conv2", "short", "sum", "concat1",
                                          "global_average_pool1", "fc1"});
  CHECK(network.readers() == std::vector<int>{1, 2, 1, 1, 1, 2, 1, 1, 0});
  std::vector<std::string> tensors;
  for (const Tensor& tensor : network.layout.tensors()) tensors.push_back(tensor.name);
  CHECK(tensors == std::vector<std::string>{"stem.weight", "stem.bias", "conv2.weight", "conv2.bias",
                                            "short.weight", "short.bias", "fc1.weight", "fc1.bias"});
}

TEST_CASE("a_graph_that_cannot_be_is_refused") {
  CHECK(refusal({conv(4, 3), reading(relu(), {"conv7"}), dense(10)}) ==
        "train.layers[1]: relu: from conv7, expected the name of a layer before it, or input");
  CHECK(refusal({reading(conv(4, 3), {"relu1"}), relu(), dense(10)}) ==
        "train.layers[0]: conv: from relu1, which is not before it but train.layers[1], expected a layer "
        "before it: a network has no cycles");
  CHECK(refusal({reading(conv(4, 3), {"conv1"}), dense(10)}) ==
        "train.layers[0]: conv: from conv1, which is not before it but train.layers[0], expected a layer "
        "before it: a network has no cycles");
  CHECK(refusal({named_layer("a", conv(4, 3)), named_layer("a", relu()), dense(10)}) ==
        "train.layers[1]: relu: name a is that of train.layers[0], expected another");
  CHECK(refusal({named_layer("relu1", conv(4, 3)), relu(), dense(10)}) ==
        "train.layers[1]: relu: name relu1 is that of train.layers[0], expected another");
  CHECK(refusal({named_layer("input", conv(4, 3)), dense(10)}) ==
        "train.layers[0]: conv: name input is the image's, expected another");
  CHECK(refusal({named_layer("a b", conv(4, 3)), dense(10)}) ==
        "train.layers[0]: conv: name a b, expected letters, digits, _, -, . and /, no more than 64");
  CHECK(refusal({conv(4, 3), reading(relu(), {"conv1", "input"}), dense(10)}) ==
        "train.layers[1]: relu: 2 inputs, expected 1");
  CHECK(refusal({conv(4, 3), add({}), dense(10)}) == "train.layers[1]: add: 1 input, expected 2 or more");
  CHECK(refusal({conv(4, 3), relu(), reading(dense(10), {"conv1"})}) ==
        "train.layers[1]: relu: no layer reads relu1, expected one whose `from` names it");
  CHECK(refusal({conv(4, 3), add({"conv1", "input"}), dense(10)}) ==
        "train.layers[1]: add: inputs of 4x32x32 and 3x32x32, expected inputs of one shape");
  CHECK(refusal({conv(4, 3, 2), concat({"conv1", "input"}), dense(10)}) ==
        "train.layers[1]: concat: inputs of 4x16x16 and 3x32x32, expected inputs of one height and width");
  CHECK(refusal({flatten(), global_average_pool(), dense(10)}) ==
        "train.layers[1]: global_average_pool: needs an image, but its input is a vector of 3072 units");
  CHECK(refusal({conv(4, 3), global_average_pool()}) ==
        "train.layers[1]: global_average_pool: out 4 is last, expected dense with out 10 (the number of "
        "classes)");
}

TEST_CASE("a_layers_factors_are_its_tensors_traits") {
  LayerConfig slow = conv(4, 3);
  slow.lr_factor = 0.5;
  slow.decay_factor = 0.0;
  const NetworkSpec network = network_of({slow, dense(10)}, {3, 8, 8}, 10);
  const auto& tensors = network.layout.tensors();
  CHECK(tensors[0].traits == TensorTraits{TensorRole::kWeight, 0.5, 0.0});
  CHECK(tensors[1].traits == TensorTraits{TensorRole::kBias, 0.5, 0.0});
  CHECK(tensors[2].traits == usual_traits("fc1.weight"));
  CHECK(tensors[3].traits == usual_traits("fc1.bias"));
  CHECK(network.layout.hash() != network_of({conv(4, 3), dense(10)}, {3, 8, 8}, 10).layout.hash());
  LayerConfig wrong = relu();
  wrong.lr_factor = 0.0;
  CHECK(refusal({wrong, dense(10)}) == "train.layers[0]: relu: has no `lr_factor`");
}

TEST_CASE("a_batch_norm_has_a_scale_a_shift_and_two_buffers") {
  LayerConfig norm = batch_norm();
  norm.momentum = 0.25;
  norm.lr_factor = 2.0;
  norm.decay_factor = 0.5;
  const NetworkSpec network = network_of({conv_without_bias(4, 3), norm, dense(10)}, {3, 8, 8}, 10);
  const auto& tensors = network.layout.tensors();
  std::vector<std::string> names;
  for (const Tensor& tensor : tensors) names.push_back(tensor.name);
  CHECK(names == std::vector<std::string>{"conv1.weight", "bn1.weight", "bn1.bias", "bn1.running_mean",
                                          "bn1.running_var", "fc1.weight", "fc1.bias"});
  CHECK(tensors[1].traits == TensorTraits{TensorRole::kNorm, 2.0, 0.5});
  CHECK(tensors[2].traits == TensorTraits{TensorRole::kNorm, 2.0, 0.5});
  CHECK(tensors[3].traits == TensorTraits{TensorRole::kBuffer, 0.25, 0.0});
  CHECK(tensors[4].traits == TensorTraits{TensorRole::kBuffer, 0.25, 0.0});
  CHECK(network.layout.size() - network.trained() == 8);
  std::vector<float> parameters(network.layout.size());
  initialize_parameters(network, 1, parameters);
  const auto from = parameters.begin() + network.layers[1].weight.offset;
  CHECK(std::vector<float>(from, from + 16) ==
        std::vector<float>{1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1});
}

TEST_CASE("a_batch_norm_that_cannot_be_is_refused") {
  LayerConfig without = batch_norm();
  without.bias = false;
  CHECK(refusal({without, dense(10)}) == "train.layers[0]: batch_norm: has no `bias` that it could lack");
  LayerConfig decays = conv(4, 3);
  decays.bias = false;
  decays.bias_decay_factor = 0.0;
  CHECK(refusal({decays, dense(10)}) == "train.layers[0]: conv: `bias: false` beside what its bias would be");
  LayerConfig epsilon = conv(4, 3);
  epsilon.epsilon = 1e-3;
  CHECK(refusal({epsilon, dense(10)}) ==
        "train.layers[0]: conv: has no `epsilon`, `momentum`, `affine` and `debias`");
  TrainSection one = train_with({global_average_pool(), batch_norm(), dense(10)});
  one.batch_size = 1;
  CHECK(
      refusal(one) ==
      "train.layers[1]: batch_norm: normalises over one value: batch_size 1 of a channel of 1x1, expected at "
      "least 2 values a channel");
  TrainSection gamma = train_with({dense(10)});
  gamma.zero_gamma = true;
  CHECK_THAT(refusal(gamma), Catch::StartsWith("train.zero_gamma: is for the ready-made residual networks"));
  gamma = {};
  gamma.zero_gamma = true;
  CHECK(
      refusal(gamma) ==
      "train.zero_gamma: true, but train.model is cifar_cnn_small, expected a residual network, as resnet20");
}

TEST_CASE("residual_networks_have_the_parameters_of_their_papers") {
  CHECK(residual("resnet20").trained() == 272'474);  // 0.27 M; 2,752 of them are the projections'
  CHECK(residual("resnet56").trained() == 855'770);
  CHECK(residual("resnet50", 1000).trained() == 25'557'032);
}

// torchvision's resnet50 has 320, of which 53 count mini-batches.
TEST_CASE(
    "the_tensors_of_resnet50_have_the_names_and_shapes_of_torchvisions_and_its_strides_are_in_the_3x3") {
  const NetworkSpec network = residual("resnet50", 1000);
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const Tensor& tensor : network.layout.tensors()) shapes[tensor.name] = tensor.shape;
  CHECK(shapes.size() == 267);
  for (const auto& [name, shape] :
       std::map<std::string, std::vector<std::int64_t>>{{"conv1.weight", {64, 3, 7, 7}},
                                                        {"bn1.running_mean", {64}},
                                                        {"layer1.0.conv1.weight", {64, 64, 1, 1}},
                                                        {"layer1.0.conv3.weight", {256, 64, 1, 1}},
                                                        {"layer1.0.bn3.running_var", {256}},
                                                        {"layer1.0.downsample.0.weight", {256, 64, 1, 1}},
                                                        {"layer1.0.downsample.1.bias", {256}},
                                                        {"layer1.2.conv1.weight", {64, 256, 1, 1}},
                                                        {"layer2.0.conv2.weight", {128, 128, 3, 3}},
                                                        {"layer3.0.downsample.0.weight", {1024, 512, 1, 1}},
                                                        {"layer3.5.bn2.weight", {256}},
                                                        {"layer4.2.conv3.weight", {2048, 512, 1, 1}},
                                                        {"fc.weight", {1000, 2048}},
                                                        {"fc.bias", {1000}}}) {
    INFO(name);
    CHECK(shapes[name] == shape);
  }
  CHECK(shapes.count("layer1.1.downsample.0.weight") == 0);
  CHECK(to_string(layer_named(network, "layer2.0.conv1").out) == "128x56x56");
  CHECK(to_string(layer_named(network, "layer2.0.conv2").out) == "128x28x28");
}

TEST_CASE("residual_networks_begin_as_he_et_al_draw_them_and_their_last_layer_is_small") {
  const NetworkSpec network = residual("resnet20", 1000);
  std::vector<float> parameters(network.layout.size());
  initialize_parameters(network, 1, parameters);
  const auto variance = [&](const Layer& layer) {
    double squares = 0.0;
    for (std::int64_t i = 0; i < layer.weight.size; ++i) {
      squares +=
          static_cast<double>(parameters[layer.weight.offset + i]) * parameters[layer.weight.offset + i];
    }
    return squares / static_cast<double>(layer.weight.size);
  };
  // Of 18,432 and 64,000 normal draws: known to a relative sqrt(2 / n); five times that. By fan-out it were half as
  // much.
  CHECK(variance(layer_named(network, "layer3.0.conv1")) == Approx(2.0 / (32 * 9)).epsilon(0.052));
  CHECK(variance(layer_named(network, "fc")) == Approx(1e-4).epsilon(0.028));
  const Layer& fc = layer_named(network, "fc");
  for (std::int64_t i = 0; i < fc.bias.size; ++i) REQUIRE(parameters[fc.bias.offset + i] == 0.0F);
}

TEST_CASE("blocks_whose_last_gamma_is_0_begin_as_the_identity_and_norms_and_biases_do_not_decay") {
  struct Case {
    std::string model;
    std::string last;
    int blocks;
  };
  const auto [model, last_norm, blocks] =
      GENERATE(Case{"resnet20", ".bn2", 9}, Case{"resnet56", ".bn2", 27}, Case{"resnet50", ".bn3", 16});
  const NetworkSpec network = residual(model, 10, /*zero_gamma=*/true);
  int zeros = 0;
  for (const Layer& layer : network.layers) {
    if (!layer.mixes_samples()) continue;
    const bool last = layer.name.ends_with(last_norm);
    CHECK(layer.weight_init == FillerConfig{.kind = FillerKind::kConstant, .value = last ? 0.0 : 1.0});
    zeros += last ? 1 : 0;
  }
  CHECK(zeros == blocks);
  for (const Tensor& tensor : network.layout.tensors()) {
    CHECK(tensor.traits.decay_factor == (tensor.traits.role == TensorRole::kWeight ? 1.0 : 0.0));
  }
}

// The hash travels and is in checkpoints: as it was before layers had names.
TEST_CASE("the_layouts_of_the_ready_made_networks_keep_their_hashes") {
  CHECK(hex(build_network(TrainSection{}).value().layout.hash()) == "22716750543e521e");
  CHECK(hex(residual("resnet20").layout.hash()) == "e3fa4a024fb2054a");
  CHECK(hex(residual("resnet56").layout.hash()) == "5974b7cf63862ea0");
  CHECK(hex(residual("resnet50", 1000).layout.hash()) == "b929cb2bcf2ae0cc");
}

TEST_CASE("model_layers_and_dropout_must_agree") {
  TrainSection unknown;
  unknown.model = "resnet";
  CHECK(refusal(unknown) ==
        "train.model: resnet, expected cifar_cnn, cifar_cnn_small, resnet20, resnet56, resnet50, or layers");
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
