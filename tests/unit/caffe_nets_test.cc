// Whole nets of the kinds that Caffe's examples and models have, in texts of our own: what they come to, and that each
// learns. Shapes of LeNet, CIFAR-10 quick and AlexNet are looked at in caffe_test.cc.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <sstream>
#include <utility>
#include <vector>

#include "common/caffe/net.h"
#include "common/caffe/weights.h"
#include "common/params/init_from.h"
#include "tests/unit/caffe_files.h"
#include "tests/unit/model_fixture.h"

using namespace paceline;
using namespace paceline::prototxt;
using Catch::Contains;

namespace {

std::string layer(const std::string& name, const std::string& type, const std::vector<std::string>& bottoms,
                  const std::string& top, const std::string& more = "") {
  std::string text = "layer { name: '" + name + "' type: '" + type + "'";
  for (const std::string& bottom : bottoms) text += " bottom: '" + bottom + "'";
  return text + " top: '" + top + "' " + more + " }\n";
}

const std::string kHead = data("TRAIN", 8, "scale: 0.0039");

// Three convolutions, each with what `behind` makes of its output, and one dense layer.
std::string full(const std::string& conv_more, const std::function<std::string(const std::string&)>& behind) {
  std::string net = kHead;
  std::string from = "data";
  for (const auto& [name, out, method] :
       {std::tuple("conv1", 32, "MAX"), {"conv2", 32, "AVE"}, {"conv3", 64, "AVE"}}) {
    net +=
        conv(name, from, name, "num_output: " + std::to_string(out) + " pad: 2 kernel_size: 5 " + conv_more);
    net += pool(std::string("pool_") + name, name, std::string("pool_") + name,
                std::string("pool: ") + method + " kernel_size: 3 stride: 2");
    from = std::string("pool_") + name;
    net += behind(from);
  }
  return net + dense("ip", from, "scores", 10) + kEnd;
}

// One module with four branches, and a side loss in front of it.
const std::string kInception =
    kHead + conv("stem", "data", "stem", "num_output: 8 kernel_size: 5 stride: 2 pad: 2") +
    plain("ReLU", "stem") + pool("stem_pool", "stem", "stem_pool") +
    dense("side/classifier", "stem_pool", "side", 10) +
    layer("side/loss", "SoftmaxWithLoss", {"side", "label"}, "side_loss", "loss_weight: 0.3") +
    conv("in/1x1", "stem_pool", "in/1x1", "num_output: 8 kernel_size: 1") +
    conv("in/3x3_reduce", "stem_pool", "in/3x3_reduce", "num_output: 4 kernel_size: 1") +
    conv("in/3x3", "in/3x3_reduce", "in/3x3", "num_output: 8 kernel_size: 3 pad: 1") +
    conv("in/5x5", "stem_pool", "in/5x5", "num_output: 8 kernel_size: 5 pad: 2") +
    pool("in/pool", "stem_pool", "in/pool", "pool: MAX kernel_size: 3 stride: 1 pad: 1") +
    conv("in/pool_proj", "in/pool", "in/pool_proj", "num_output: 8 kernel_size: 1") +
    layer("in/output", "Concat", {"in/1x1", "in/3x3", "in/5x5", "in/pool_proj"}, "in/output") +
    plain("ReLU", "in/output") +
    pool("last_pool", "in/output", "last_pool", "pool: AVE kernel_size: 8 stride: 1") +
    plain("Dropout", "last_pool", "dropout_param { dropout_ratio: 0.4 }") +
    dense("classifier", "last_pool", "scores", 10) + kEnd +
    layer("top5", "Accuracy", {"scores", "label"}, "top5",
          "accuracy_param { top_k: 5 } include { phase: TEST }");

const std::string kAutoencoder =
    "layer { name: 'd' type: 'Data' top: 'data' transform_param { scale: 0.0039 } data_param { source: 'x' "
    "batch_size: 8 } }\n" +
    layer("flatdata", "Flatten", {"data"}, "flatdata") + dense("encode1", "data", "encode1", 24) +
    layer("encode1neuron", "Sigmoid", {"encode1"}, "encode1neuron") +
    dense("code", "encode1neuron", "code", 6) + dense("decode1", "code", "decode1", 3072) +
    layer("cross_entropy", "SigmoidCrossEntropyLoss", {"decode1", "flatdata"}, "cross_entropy",
          "loss_weight: 1") +
    layer("decode1neuron", "Sigmoid", {"decode1"}, "decode1neuron") +
    layer("l2_error", "EuclideanLoss", {"decode1neuron", "flatdata"}, "l2_error", "loss_weight: 0");

// Of pairs that lie in two channels of a picture.
std::string siamese(const std::string& cut) {
  const auto branch = [](const std::string& from, const std::string& p) {
    return layer("conv" + p, "Convolution", {from}, "conv" + p,
                 "param { name: 'conv_w' lr_mult: 1 } param { name: 'conv_b' lr_mult: 2 } convolution_param "
                 "{ num_output: 6 "
                 "kernel_size: 5 weight_filler { type: 'xavier' } }") +
           layer("pool" + p, "Pooling", {"conv" + p}, "pool" + p,
                 "pooling_param { kernel_size: 2 stride: 2 }") +
           layer("feat" + p, "InnerProduct", {"pool" + p}, "feat" + p,
                 "param { name: 'feat_w' lr_mult: 1 } param { name: 'feat_b' lr_mult: 2 } "
                 "inner_product_param { "
                 "num_output: 2 weight_filler { type: 'xavier' } }");
  };
  return "layer { name: 'd' type: 'Data' top: 'pair_data' top: 'sim' transform_param { scale: 0.0039 } "
         "data_param { "
         "source: 'x' batch_size: 8 } }\n" +
         cut + branch("data", "") + branch("data_p", "_p") +
         layer("loss", "ContrastiveLoss", {"feat", "feat_p", "sim"}, "loss",
               "contrastive_loss_param { margin: 1 }");
}
const std::string kSiamese = siamese(
    "layer { name: 'cut' type: 'Slice' bottom: 'pair_data' top: 'data' top: 'data_p' slice_param { axis: 1 "
    "slice_point: 1 } }\n");

// Of the kind AlexNet, with few channels.
const std::string kGroups =
    kHead + conv("conv1", "data", "conv1", "num_output: 16 kernel_size: 5 stride: 1 pad: 2") +
    plain("ReLU", "conv1") + plain("LRN", "conv1", "lrn_param { local_size: 5 alpha: 0.0001 beta: 0.75 }") +
    pool("pool1", "conv1", "pool1") +
    conv("conv2", "pool1", "conv2", "num_output: 16 pad: 2 kernel_size: 5 group: 2") +
    plain("ReLU", "conv2") + pool("pool2", "conv2", "pool2") +
    conv("conv3", "pool2", "conv3", "num_output: 16 pad: 1 kernel_size: 3 group: 2") +
    plain("ReLU", "conv3") + dense("fc6", "conv3", "fc6", 32) + plain("ReLU", "fc6") +
    plain("Dropout", "fc6", "dropout_param { dropout_ratio: 0.5 }") + dense("fc8", "fc6", "scores", 10) +
    kEnd;

// V1, inside a solver, with stages.
const std::string kConsolidated =
    "base_lr: 0.01\nmomentum: 0.9\nlr_policy: 'inv' gamma: 0.0001 power: 0.75\nmax_iter: 100\nsolver_type: "
    "NESTEROV\n"
    "train_state { stage: 'wide' }\ntrain_net_param {\n"
    "layers { name: 'd' type: DATA top: 'data' top: 'label' data_param { source: 'x' batch_size: 8 scale: "
    "0.0039 } }\n"
    "layers { name: 'wide' type: INNER_PRODUCT bottom: 'data' top: 'ip' blobs_lr: 1 blobs_lr: 2 "
    "inner_product_param {\n"
    "  num_output: 32 weight_filler { type: 'xavier' } } include { stage: 'wide' } }\n"
    "layers { name: 'narrow' type: INNER_PRODUCT bottom: 'data' top: 'ip' inner_product_param { num_output: "
    "4 }\n"
    "  exclude { stage: 'wide' } }\n"
    "layers { name: 'r' type: RELU bottom: 'ip' top: 'ip' }\n"
    "layers { name: 'f' type: INNER_PRODUCT bottom: 'ip' top: 'f' inner_product_param { num_output: 10 "
    "weight_filler {\n"
    "  type: 'xavier' } } }\n"
    "layers { name: 'loss' type: SOFTMAX_LOSS bottom: 'f' bottom: 'label' top: 'loss' }\n}\n";

// Twelve steps down the gradient on one mini-batch, at the solver's rate.
void check_learns(const RunConfig& config, const Shape& input = {3, 32, 32}) {
  const NetworkSpec network = build_network(config.train, input, 10).value();
  const RandomBatch batch(network, 8, 3);
  std::vector<float> parameters(static_cast<std::size_t>(network.layout.size()));
  initialize_parameters(network, 3, parameters);
  std::vector<float> gradient(parameters.size());
  const auto backend = make_backend(Backend::kOnednn, network, 8, 3).value();
  double first = 0.0, last = 0.0;
  for (int step = 0; step <= 12; ++step) {
    const Metric metric = backend->gradient(parameters, batch.all(), gradient, whole_at_the_end).value();
    last = metric.loss_sum / static_cast<double>(metric.samples);
    if (step == 0) first = last;
    for (const Tensor& tensor : network.layout.tensors()) {
      const bool is_buffer = tensor.traits.role == TensorRole::kBuffer;
      for (std::int64_t i = tensor.offset; i < tensor.offset + tensor.size(); ++i) {
        const auto at = static_cast<std::size_t>(i);
        parameters[at] -= static_cast<float>(is_buffer ? 0.5 * (parameters[at] - gradient[at])
                                                       : config.train.optimizer.lr * gradient[at]);
      }
    }
  }
  INFO("from " << first << " to " << last);
  CHECK(std::isfinite(last));
  CHECK(last < 0.95 * first);
}

std::string solver_with(const std::string& rate) {
  return "net: 'net.prototxt'\nbase_lr: " + rate + "\nlr_policy: 'fixed'\nmax_iter: 40\n";
}

}  // namespace

TEST_CASE("nets_of_the_kinds_lenet_and_cifar10_quick_learn") {
  Files files;
  check_learns(files.load(kLenet, solver_with("0.1")).value(), {1, 28, 28});
  check_learns(files.load(kQuick, solver_with("0.1")).value());
}

TEST_CASE("paceline model takes overrides of a configuration, and a Caffe file has none") {
  const Files files;
  files.put("run.yaml", "train: {model: cifar_cnn_small}\n");
  const auto printed_of = [&](const std::string& file, std::vector<std::string> overrides) {
    std::ostringstream out;
    const int status =
        paceline::model({.path = files.path(file), .overrides = std::move(overrides)}, out, out);
    return std::to_string(status) + " " + last_line(out.str());
  };
  CHECK(printed_of("run.yaml", {}) == "0 parameters 545098");
  CHECK(printed_of("run.yaml", {"train.model=resnet20"}) == "0 parameters 272474");
  CHECK_THAT(printed_of("run.yaml", {"train.model=none"}), Contains("2 ") && Contains("train.model"));
  CHECK_THAT(printed_of("net.prototxt", {"train.model=resnet20"}),
             Contains("a Caffe file has no keys, got train.model=resnet20, expected none"));
}

TEST_CASE("cifar10_full_has_lrn_within_channels_or_sigmoids_and_batch_norm") {
  Files files;
  const std::string lrn = full("", [](const std::string& blob) {
    return plain("ReLU", blob) +
           plain("LRN", blob,
                 "lrn_param { local_size: 3 alpha: 5e-05 beta: 0.75 norm_region: WITHIN_CHANNEL }");
  });
  CHECK(last_line(files.model(lrn, "3,32,32")) == "parameters 89578");
  check_learns(files.load(lrn, solver_with("0.1")).value());

  const std::string none = "param { lr_mult: 0 } param { lr_mult: 0 } param { lr_mult: 0 }";
  const std::string norm = full("bias_term: false", [&](const std::string& blob) {
    return plain("BatchNorm", blob, none) + plain("Sigmoid", blob);
  });
  const std::string table = files.model(norm, "3,32,32");
  CHECK(last_line(table) == "parameters 89450");
  CHECK_THAT(table, Contains("running statistics 259"));  // 2 (32 + 32 + 64) + 3
  check_learns(files.load(norm, solver_with("0.005")).value());
  // And with the Scale that usually follows.
  const std::string scaled = full("bias_term: false", [&](const std::string& blob) {
    return plain("BatchNorm", blob) + plain("Scale", blob, "scale_param { bias_term: true }") +
           plain("ReLU", blob);
  });
  CHECK(last_line(files.model(scaled, "3,32,32")) == "parameters 89706");
  const RunConfig config = files.load(scaled, solver_with("0.01") + "weight_decay: 0.004\n").value();
  CHECK(parse_config(to_yaml(config), "again", {}, LoadFor::kReading).value() == config);
  check_learns(config);
}

TEST_CASE("a_net_of_the_kind_googlenet_has_side_losses_and_one_count_of_hits") {
  Files files;
  const RunConfig config =
      files.load(kInception, solver_with("0.1") + "test_iter: 2 test_interval: 10\n").value();
  const NetworkSpec network = build_network(config.train).value();
  std::vector<double> weights;
  for (const Layer& each : network.layers) {
    if (each.loss.is_one) weights.push_back(each.loss.weight);
  }
  CHECK(weights == std::vector<double>{0.3, 1.0});
  CHECK(network.layers.back().loss.counts_hits);
  CHECK(network.layers.back().loss.top_k == 1);
  REQUIRE_FALSE(files.notes.empty());
  CHECK_THAT(files.notes.back(), Contains("accuracy with top_k 5 is not counted"));
  CHECK(parse_config(to_yaml(config), "again", {}, LoadFor::kReading).value() == config);
  check_learns(config);
  const std::string table = files.model(kInception, "3,32,32");
  CHECK_THAT(table, Contains("8x16x16") && Contains("8x8x8") && Contains("32x8x8") && Contains("32x1x1"));
  CHECK(last_line(table) == "parameters 8152");
}

TEST_CASE("an_accuracy_of_top_k_alone_is_what_evaluations_count") {
  Files files;
  const std::string net = kHead + data("TEST", 4) + dense("f", "data", "scores", 10) +
                          layer("loss", "SoftmaxWithLoss", {"scores", "label"}, "loss") +
                          layer("top5", "Accuracy", {"scores", "label"}, "top5",
                                "accuracy_param { top_k: 5 } include { phase: TEST }");
  const RunConfig config = files.load(net, solver_with("0.1") + "test_iter: 2 test_interval: 10\n").value();
  REQUIRE(config.train.layers.size() == 2);
  CHECK(config.train.layers[1].top_k == 5);
  CHECK(files.load(net, solver_with("0.1")).value().train.layers.size() == 1);  // nothing is evaluated
}

TEST_CASE("a_net_of_the_kind_autoencoder_aims_at_its_picture") {
  Files files;
  const RunConfig config = files.load(kAutoencoder, solver_with("0.003")).value();
  CHECK(files.notes.size() == 2);  // the loss of weight 0 and what only that reads
  const NetworkSpec network = build_network(config.train).value();
  CHECK(network.layout.size() == (3072 + 1) * 24 + (24 + 1) * 6 + (6 + 1) * 3072);
  check_learns(config);
}

TEST_CASE("a_net_of_the_kind_siamese_has_its_weights_once") {
  Files files;
  // 6 (5 5 + 1) + 2 (6 12 12 + 1)
  CHECK(last_line(files.model(kSiamese, "2,28,28")) == "parameters 1886");
  const std::string three = siamese(
      "layer { name: 'cut' type: 'Slice' bottom: 'pair_data' top: 'data' top: 'data_p' top: 'rest' }\n"
      "layer { name: 'quiet' type: 'Silence' bottom: 'rest' }\n");
  const RunConfig config = files.load(three, solver_with("0.01")).value();
  CHECK(parse_config(to_yaml(config), "again", {}, LoadFor::kReading).value() == config);
  const NetworkSpec network = build_network(config.train).value();
  CHECK(network.layout.tensors().size() == 4);
  CHECK(network.layout.tensors()[1].traits.lr_factor == 2.0);
  check_learns(config);
  RunConfig of_two_channels = config;
  files.put("pairs.prototxt", kSiamese);
  of_two_channels.train.layers =
      caffe::read_net(files.path("pairs.prototxt"), {}, files.notes).value().layers;
  check_learns(of_two_channels, {2, 28, 28});
  // A part of it, or another rate.
  std::string other = three;
  const std::string bias = "param { name: 'feat_b' lr_mult: 2 }";
  CHECK_THAT(files.refusal(other.replace(other.rfind(bias), bias.size(), "param { lr_mult: 2 }"),
                           solver_with("0.01")),
             Contains("layer feat_p: a part of what layer feat has, expected all of it"));
  other = three;
  CHECK_THAT(
      files.refusal(other.replace(other.rfind(bias), bias.size(), "param { name: 'feat_b' lr_mult: 1 }"),
                    solver_with("0.01")),
      Contains("layer feat_p: lr_mult or decay_mult other than those of layer feat"));
  // Said by one of the two, whichever.
  for (const bool by_the_first : {true, false}) {
    other = three;
    other.replace(by_the_first ? other.rfind(bias) : other.find(bias), bias.size(),
                  "param { name: 'feat_b' }");
    CHECK(files.load(other, solver_with("0.01")).value().train.layers == config.train.layers);
  }
}

TEST_CASE("what_a_layer_that_no_loss_depends_on_has_is_that_of_the_first_that_shares_it") {
  Files files;
  const auto of = [](const std::string& name) {
    return layer(name, "InnerProduct", {"data"}, name,
                 "param { name: 'w' lr_mult: 3 } param { name: 'b' lr_mult: 2 }"
                 " inner_product_param { num_output: 10 weight_filler { type: 'xavier' } }");
  };
  const RunConfig config = files
                               .load(kHead + of("aside") + of("f") + of("g") +
                                         layer("f/loss", "SoftmaxWithLoss", {"f", "label"}, "f/loss") +
                                         layer("g/loss", "SoftmaxWithLoss", {"g", "label"}, "g/loss"),
                                     solver_with("0.01"))
                               .value();
  REQUIRE(config.train.layers.size() == 4);
  const LayerConfig& f = config.train.layers[0];
  CHECK((f.name == "f" && f.weights_of.empty() && f.lr_factor == 3.0 && f.bias_lr_factor == 2.0));
  CHECK(f.weight_init.kind == FillerKind::kXavier);
  CHECK(config.train.layers[1].weights_of == "f");
  CHECK(build_network(config.train).value().layout.size() == 10 * (3072 + 1));
  CHECK_THAT(files.notes.back(), Contains("layer aside is left out: no loss depends on it"));
}

TEST_CASE("a_caffemodel_that_was_written_and_read_has_the_same_loss_and_hits") {
  Files files;
  const std::string norm = kHead + conv("c", "data", "c", "num_output: 4 kernel_size: 5 bias_term: false") +
                           plain("BatchNorm", "c") + plain("Scale", "c", "scale_param { bias_term: true }") +
                           dense("f", "c", "scores", 10) + kEnd;
  for (const std::string& net : {kGroups, kInception, norm}) {
    const NetworkSpec network = build_network(files.load(net, solver_with("0.1")).value().train).value();
    const RandomBatch batch(network, 40, 9);
    const auto backend = make_backend(Backend::kOnednn, network, 40, 3).value();
    const std::vector<float> parameters = random_parameters(network, 9);
    const std::string path = files.path("again.caffemodel");
    const ModelInfo info{"net", Version(1), Revision(1), network.layout};
    REQUIRE(caffe::write_weights(path, info, parameters).is_ok());
    std::vector<float> again = random_parameters(network, 10);
    const Metric others = backend->evaluate(again, batch.all()).value();
    REQUIRE(
        take_parameters(caffe::read_weights(path).value(), path, network.layout, again).value().kept.empty());
    const Metric before = backend->evaluate(parameters, batch.all()).value();
    const Metric behind = backend->evaluate(again, batch.all()).value();
    CHECK(behind.correct == before.correct);
    CHECK(behind.loss_sum == Approx(before.loss_sum));
    CHECK(others.loss_sum != Approx(before.loss_sum));
  }
}

TEST_CASE("a_net_of_the_kind_alexnet_has_groups") {
  Files files;
  const std::string table = files.model(kGroups, "3,32,32");
  CHECK_THAT(table, Contains("16x32x32") && Contains("16x16x16") && Contains("16x8x8"));
  CHECK(last_line(table) == "parameters 38730");
  check_learns(files.load(kGroups, solver_with("0.1")).value());
}

TEST_CASE("a_solver_with_a_v1_net_and_stages_trains_what_they_say") {
  Files files;
  const RunConfig config = files.load("", kConsolidated).value();
  REQUIRE(config.train.layers.size() == 3);
  CHECK(config.train.layers[0].name == "wide");
  CHECK(config.train.optimizer.nesterov);
  CHECK(build_network(config.train).value().layout.size() == 32 * (3072 + 1) + 10 * (32 + 1));
  check_learns(config);
}

TEST_CASE("clipping_and_absolute_decay_are_read") {
  Files files;
  const std::string net = kHead + dense("f", "data", "scores", 10) + kEnd;
  const RunConfig config =
      files
          .load(net, solver_with("0.1") +
                         "clip_gradients: 35 iter_size: 2 weight_decay: 0.01 regularization_type: 'L1'\n")
          .value();
  CHECK(config.train.clip_gradients == 17.5);  // of the mean of two passes
  CHECK((config.train.batch_size == 16 && config.train.accumulate == 2));
  CHECK(config.train.optimizer.decay_norm == DecayNorm::kL1);
  CHECK_THAT(files.refusal(net, solver_with("0.1") + "weight_decay: 0.01 regularization_type: 'L3'\n"),
             Contains("solver.prototxt:5: regularization_type: L3, expected L1 or L2"));
}

TEST_CASE("batch_norms_blobs_in_a_caffemodel_are_caffes_sums") {
  Files files;
  const std::string net = kHead + conv("c", "data", "c", "num_output: 2 kernel_size: 32 bias_term: false") +
                          plain("BatchNorm", "c", "batch_norm_param { moving_average_fraction: 0.75 }") +
                          plain("Scale", "c", "scale_param { bias_term: true }") +
                          dense("f", "c", "scores", 10) + kEnd;
  const RunConfig config = files.load(net, solver_with("0.1")).value();
  const NetworkSpec network = build_network(config.train).value();
  std::vector<float> parameters = random_parameters(network, 4);
  const std::string path = files.path("norm.caffemodel");
  REQUIRE(caffe::write_weights(path, {"norm", Version(1), Revision(1), network.layout}, parameters).is_ok());
  std::vector<float> again(parameters.size(), -1.0F);
  const TensorsTaken taken =
      take_parameters(caffe::read_weights(path).value(), path, network.layout, again).value();
  CHECK(taken.kept.empty());
  for (std::size_t i = 0; i < parameters.size(); ++i) CHECK(again[i] == Approx(parameters[i]));
  // One of ours has a scale and a shift of its own, which Caffe's has not.
  const NetworkSpec ours = network_of({flatten(), batch_norm(), dense(10)}, {3, 2, 2}, 10);
  CHECK_THAT(caffe::write_weights(path, {"ours", Version(1), Revision(1), ours.layout},
                                  std::vector<float>(static_cast<std::size_t>(ours.layout.size())))
                 .message(),
             Contains("layer bn1: a batch_norm with 4 tensors, expected affine: false and debias: true"));
}
