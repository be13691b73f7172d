// Caffe's nets and solvers as configurations: what they come to, what is refused and where. The nets are of the
// kinds LeNet, CIFAR-10 quick and full, AlexNet and V1 with stages; their texts are our own.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "common/caffe/colours.h"
#include "common/caffe/mean_file.h"
#include "common/caffe/net.h"
#include "common/caffe/weights.h"
#include "common/config/load.h"
#include "common/config/planned.h"
#include "common/network/network.h"
#include "common/params/init_from.h"
#include "common/params/schedule.h"
#include "tests/unit/caffe_files.h"
#include "tools/export.h"

using namespace paceline;
using namespace paceline::prototxt;
using Catch::Contains;

namespace {

// Of the kind of AlexNet: 60,965,224 parameters.
const std::string kAlex =
    "input: 'data' input_dim: 10 input_dim: 3 input_dim: 227 input_dim: 227\n" +
    conv("conv1", "data", "conv1", "num_output: 96 kernel_size: 11 stride: 4") + plain("ReLU", "conv1") +
    plain("LRN", "conv1", "lrn_param { local_size: 5 alpha: 0.0001 beta: 0.75 }") +
    pool("pool1", "conv1", "pool1") +
    conv("conv2", "pool1", "conv2", "num_output: 256 pad: 2 kernel_size: 5 group: 2") +
    plain("ReLU", "conv2") + plain("LRN", "conv2", "lrn_param { local_size: 5 alpha: 0.0001 beta: 0.75 }") +
    pool("pool2", "conv2", "pool2") +
    conv("conv3", "pool2", "conv3", "num_output: 384 pad: 1 kernel_size: 3") + plain("ReLU", "conv3") +
    conv("conv4", "conv3", "conv4", "num_output: 384 pad: 1 kernel_size: 3 group: 2") +
    plain("ReLU", "conv4") +
    conv("conv5", "conv4", "conv5", "num_output: 256 pad: 1 kernel_size: 3 group: 2") +
    plain("ReLU", "conv5") + pool("pool5", "conv5", "pool5") + dense("fc6", "pool5", "fc6", 4096) +
    plain("ReLU", "fc6") + plain("Dropout", "fc6", "dropout_param { dropout_ratio: 0.5 }") +
    dense("fc7", "fc6", "fc7", 4096) + plain("ReLU", "fc7") + dense("fc8", "fc7", "fc8", 1000) +
    "layer { name: 'prob' type: 'Softmax' bottom: 'fc8' top: 'prob' }\n";

// A field of bytes as the wire has it.
std::string field(int number, const std::string& bytes) {
  std::string key;
  for (unsigned value = static_cast<unsigned>(number) << 3 | 2;; value >>= 7) {
    key += static_cast<char>(value < 128 ? value : (value & 127) | 128);
    if (value < 128) break;
  }
  return key + static_cast<char>(bytes.size()) + bytes;
}
std::string floats(std::vector<float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

}  // namespace

TEST_CASE("nets_have_caffes_shapes_and_parameters") {
  Files files;
  CHECK(last_line(files.model(kLenet, "1,28,28")) == "parameters 431080");
  // 20 25 24^2 + 50 500 8^2 + 500 800 + 10 500
  CHECK_THAT(files.model(kLenet, "1,28,28", "test"), Contains("multiply-adds 2293000\nparameters 431080"));
  const std::string quick = files.model(kQuick, "3,32,32");
  CHECK(last_line(quick) == "parameters 145578");
  // Caffe rounds up: 32, 16, 8, 4.
  CHECK_THAT(quick, Contains("32x16x16") && Contains("32x8x8") && Contains("64x4x4"));
  const std::string alex = files.model(kAlex);
  CHECK(last_line(alex) == "parameters 60965224");
  CHECK_THAT(alex, Contains("223,948,800") && Contains("multiply-adds 724406816"));  // of two groups in conv2
  CHECK_THAT(alex,
             Contains("96x55x55") && Contains("96x27x27") && Contains("256x13x13") && Contains("256x6x6"));
  CHECK_THAT(files.model(kQuick), Contains("expected --input C,H,W"));
}

TEST_CASE("a_solver_says_network_optimizer_and_length") {
  Files files;
  const RunConfig config = files.load(kQuick).value();
  CHECK(config.train.model == "layers");
  CHECK(config.train.layers.size() == 11);
  CHECK(config.train.layers[2].from == std::vector<std::string>{"pool1"});  // in place: after it comes ...
  CHECK(config.train.layers[3].from == std::vector<std::string>{"ReLU_pool1"});
  const OptimizerSection& optimizer = config.train.optimizer;
  CHECK(optimizer.kind == OptimizerKind::kMomentum);
  CHECK(optimizer.momentum_form == MomentumForm::kInside);
  CHECK(optimizer.lr == 0.001);
  CHECK(optimizer.momentum == 0.9);
  CHECK(optimizer.weight_decay == 0.004);
  CHECK(config.train.batch_size == 100);
  CHECK(config.train.total_iterations == 4000);
  CHECK(config.train.eval_every_clocks == 500);
  CHECK(config.train.eval_samples == 10'000);
  CHECK(config.checkpoint.every_clocks == 4000);
  CHECK(config.data.subtract == Subtract::kPixel);
  CHECK(config.data.scale == 1.0);
  REQUIRE(files.notes.size() == 1);
  CHECK_THAT(files.notes[0],
             Contains("net.prototxt:1: layer d: mean_file mean.binaryproto is not there: the mean"));
  // It is all in the configuration; the solver is not needed again.
  const std::string yaml = to_yaml(config);
  CHECK_THAT(yaml, Contains("caffe_solver: null"));
  CHECK(parse_config(yaml, "again", {}, LoadFor::kReading).value() == config);
}

TEST_CASE("what_is_given_stays_and_updates_are_counted_as_caffe_counts_them") {
  Files files;
  const RunConfig two = files.load(kQuick, kSolver, {"cluster.nodes=2", "train.optimizer.lr=0.5"}).value();
  CHECK(two.train.total_iterations == 8000);
  CHECK(two.train.optimizer.lr == 0.5);
  const RunConfig each = files.load(kQuick, kSolver, {"cluster.nodes=2", "sync.policy=asp"}).value();
  CHECK(each.train.total_iterations == 8000);
  // A schedule that ends with max_iter ends with the run, whoever's gradients make a version.
  const RunConfig backup =
      files.load(kQuick, kSolver, {"cluster.nodes=4", "sync.policy=backup", "sync.backup_workers=1"}).value();
  for (const RunConfig* config : {&two, &each, &backup}) CHECK(planned_versions(*config) == 4000);
  const RunConfig local = files.load(kQuick, kSolver, {"cluster.nodes=4", "train.local_steps=10"}).value();
  CHECK(local.train.total_iterations == 16'000);
  CHECK(local.train.inner_optimizer.kind == OptimizerKind::kMomentum);
  CHECK(local.train.inner_optimizer.lr == 0.001);
  CHECK((local.train.optimizer.kind == OptimizerKind::kSgd && local.train.optimizer.lr == 1.0));
  CHECK(local.train.layers == two.train.layers);  // the multipliers of its decay, too
  CHECK(local.train.optimizer.of_deltas);
  CHECK_FALSE(two.train.optimizer.of_deltas);
  CHECK(local.train.eval_every_clocks == 50);
  const RunConfig added =
      files.load(kQuick, kSolver, {"cluster.nodes=4", "train.local_steps=10", "sync.policy=asp"}).value();
  CHECK(added.train.optimizer.lr == 0.25);  // of each delta the share that it has in their mean
  CHECK(files.load(kQuick, kSolver + "iter_size: 3\n").value().train.batch_size == 300);
  const RunConfig scaled = files.load(kQuick, kSolver, {"train.optimizer.schedule.scale=linear"}).value();
  CHECK(scaled.train.optimizer.schedule.scale_factor == Approx(100.0 / 256.0));  // of the solver's mini-batch
}

TEST_CASE("each_kind_of_solver_is_an_optimizer") {
  Files files;
  const auto optimizer = [&](const std::string& more) {
    std::string solver = kSolver;
    solver.replace(solver.find("momentum: 0.9\n"), 14, "");
    return files.load(kQuick, solver + more).value().train.optimizer;
  };
  CHECK(optimizer("").kind == OptimizerKind::kSgd);
  CHECK(optimizer("momentum: 0.5 type: 'Nesterov'").nesterov);
  CHECK(optimizer("momentum: 0.5 solver_type: NESTEROV").nesterov);
  const OptimizerSection adam = optimizer("momentum: 0.8 momentum2: 0.99 delta: 1e-4 type: 'Adam'");
  CHECK(adam.kind == OptimizerKind::kAdam);
  CHECK((adam.beta1 == 0.8 && adam.beta2 == 0.99 && adam.epsilon == 1e-4 && adam.epsilon_hat));
  CHECK(optimizer("type: 'AdaGrad'").kind == OptimizerKind::kAdagrad);
  CHECK(optimizer("type: 'RMSProp' rms_decay: 0.98").rho == 0.98);
  CHECK(optimizer("momentum: 0.95 type: 'AdaDelta' delta: 1e-6").rho == 0.95);
}

TEST_CASE("learning_rates_follow_caffes_formulas") {
  Files files;
  const auto rate = [&](const std::string& policy, std::int64_t version) {
    std::string solver = kSolver;
    solver.replace(solver.find("lr_policy: 'fixed'"), 18, policy);
    const RunConfig config = files.load(kQuick, solver).value();
    return learning_rate(config.train.optimizer, Version(version), planned_versions(config)) / 0.001;
  };
  CHECK(rate("lr_policy: 'fixed'", 3999) == Approx(1.0));
  CHECK(rate("lr_policy: 'step' gamma: 0.1 stepsize: 1000", 999) == Approx(1.0));
  CHECK(rate("lr_policy: 'step' gamma: 0.1 stepsize: 1000", 2500) == Approx(0.01));
  CHECK(rate("lr_policy: 'exp' gamma: 0.999", 700) == Approx(std::pow(0.999, 700)));
  CHECK(rate("lr_policy: 'inv' gamma: 0.0001 power: 0.75", 2000) == Approx(std::pow(1.2, -0.75)));
  CHECK(rate("lr_policy: 'multistep' gamma: 0.5 stepvalue: 10 stepvalue: 20", 20) == Approx(0.25));
  CHECK(rate("lr_policy: 'multistep' gamma: 0.5 stepvalue: 10 stepvalue: 20", 19) == Approx(0.5));
  CHECK(rate("lr_policy: 'poly' power: 2", 1000) == Approx(0.5625));
  CHECK(rate("lr_policy: 'sigmoid' gamma: -0.01 stepsize: 1000", 1100) == Approx(1 / (1 + std::exp(1.0))));
}

TEST_CASE("factors_fillers_and_phases_are_read") {
  Files files;
  const std::string net =
      data("TRAIN", 10) +
      "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c' param { lr_mult: 1 decay_mult: 250 }\n"
      "  param { lr_mult: 2 decay_mult: 0 } convolution_param { num_output: 4 kernel_h: 3 kernel_w: 3 "
      "dilation: 2\n"
      "  weight_filler { type: 'gaussian' std: 0.01 } bias_filler { type: 'constant' value: 0.1 } } }\n"
      "layer { name: 'only_test' type: 'ReLU' bottom: 'c' top: 'c' include { phase: TEST } }\n"
      "layer { name: 'not_now' type: 'ReLU' bottom: 'c' top: 'c' exclude { stage: 'deep' } exclude { phase: "
      "TRAIN } }\n"
      "layer { name: 'deep' type: 'Sigmoid' bottom: 'c' top: 'c' include { stage: 'deep' not_stage: 'flat' } "
      "}\n"
      "layer { name: 'unread' type: 'TanH' bottom: 'c' top: 'unread' }\n" +
      dense("f", "c", "scores", 10) + kEnd;
  const RunConfig config = files.load(net, kTrainOnly + "train_state { stage: 'deep' }").value();
  REQUIRE(config.train.layers.size() == 3);
  const LayerConfig& c = config.train.layers[0];
  CHECK((c.lr_factor == 1.0 && c.decay_factor == 250.0 && c.bias_lr_factor == 2.0 &&
         c.bias_decay_factor == 0.0));
  CHECK((c.kernel == 3 && c.dilation == 2 && c.padding == 0 && c.stride == 1));
  CHECK(c.weight_init == FillerConfig{.kind = FillerKind::kGaussian, .std = 0.01});
  CHECK(c.bias_init == FillerConfig{.kind = FillerKind::kConstant, .value = 0.1});
  CHECK(config.train.layers[1].name == "deep");
  CHECK_THAT(files.notes.at(0), Contains("layer unread is left out"));
  CHECK(files.load(net, kTrainOnly).value().train.layers.size() == 2);
}

TEST_CASE("v1_files_are_upgraded") {
  Files files;
  const std::string net =
      "layers { name: 'd' type: DATA top: 'data' top: 'label' data_param { source: 'x' batch_size: 7 scale: "
      "0.5 } }\n"
      "layers { name: 'c' type: CONVOLUTION bottom: 'data' top: 'c' blobs_lr: 1 blobs_lr: 2 weight_decay: 1\n"
      "  weight_decay: 0 convolution_param { num_output: 4 kernel_size: 3 } }\n"
      "layers { name: 'f' type: INNER_PRODUCT bottom: 'c' top: 'f' inner_product_param { num_output: 10 } }\n"
      "layers { name: 'loss' type: SOFTMAX_LOSS bottom: 'f' bottom: 'label' top: 'loss' }\n";
  const RunConfig config = files.load(net).value();
  CHECK(config.train.batch_size == 7);
  CHECK(config.data.scale == 0.5);
  CHECK(config.data.subtract == Subtract::kNone);
  CHECK(config.train.layers.at(0).bias_lr_factor == 2.0);
  CHECK(config.train.layers.at(0).bias_decay_factor == 0.0);
  // A net may stand in the solver.
  std::string solver = kSolver;
  solver.replace(0, solver.find('\n'), "net_param {\n" + net + "}");
  CHECK(files.load("", solver).value().train.layers == config.train.layers);
}

TEST_CASE("unknown_fields_are_named_and_left_out") {
  Files files;
  const RunConfig config = files.load("force_backward: false\nfancy: 3\n" + kQuick + "\n").value();
  CHECK(config.train.layers.size() == 11);
  REQUIRE(files.notes.size() == 2);  // and the mean
  CHECK_THAT(files.notes[0], Contains("net.prototxt:2: fancy is not known and is left out"));
}

TEST_CASE("what_caffe_does_to_pictures_is_done_to_ours_red_first") {
  Files files;
  const std::vector<std::string> pictures = {"data.kind=images"};
  const auto net = [](const std::string& transform) {
    return data("TRAIN", 10, transform) + dense("f", "data", "scores", 10) + kEnd;
  };
  const DataSection cropped =
      files
          .load(net("scale: 0.5 mirror: true crop_size: 227 mean_value: 104 mean_value: 117 mean_value: 123"),
                kTrainOnly, pictures)
          .value()
          .data;
  CHECK(cropped.mean == std::vector<double>{123, 117, 104});
  CHECK(cropped.deviation == std::vector<double>{2, 2, 2});
  CHECK((cropped.augment && cropped.crop.size == 227 && cropped.crop.kind == CropKind::kPlace));
  CHECK((cropped.crop.padding == 0 && cropped.crop.flip));
  const DataSection plain = files.load(net(""), kTrainOnly, pictures).value().data;
  CHECK(plain.mean == std::vector<double>{0, 0, 0});
  CHECK(plain.deviation == std::vector<double>{1, 1, 1});
  CHECK_FALSE(plain.augment);
  const DataSection whole =
      files.load(net("crop_size: 300"), kTrainOnly, {"data.kind=images", "data.augment=false"}).value().data;
  CHECK((whole.crop.size == 300 && whole.crop.resize == 300 && !whole.augment));
  CHECK_THAT(files.refusal(net("mean_file: 'm'"), kTrainOnly, pictures),
             Contains("net.prototxt:1: layer d: mean_file m is not there, expected it, or mean_value"));
  CHECK(files.load(net("mean_file: 'm'"), kTrainOnly, {"data.kind=images", "data.mean=[1,2,3]"}).is_ok());
  CHECK_THAT(files.refusal(net("crop_size: 5000"), kTrainOnly, pictures),
             Contains("net.prototxt:1: data.crop.size: "));
  CHECK_THAT(files.refusal(net("mirror: true"), kTrainOnly, pictures), Contains("mirror without crop_size"));
}

TEST_CASE("a_mean_file_that_is_there_is_read") {
  Files files;
  // A BlobProto with the four numbers of before: 1, 3, 2, 2; blue first, as Caffe's tools write pictures.
  const auto blob = [](std::vector<float> values) {
    return std::string("\x08\x01\x10\x03\x18\x02\x20\x02") + field(5, floats(std::move(values)));
  };
  files.put("m.binaryproto", blob({10, 10, 10, 14, 20, 20, 20, 20, 30, 30, 30, 30}));
  const std::string net =
      data("TRAIN", 10, "mean_file: 'm.binaryproto'") + dense("f", "data", "scores", 10) + kEnd;
  CHECK(files.load(net, kTrainOnly, {"data.kind=images"}).value().data.mean ==
        std::vector<double>{30, 20, 11});
  CHECK_THAT(files.notes.at(0), Contains("one number for each colour, is subtracted"));
  const DataSection of_files = files.load(net, kTrainOnly).value().data;
  CHECK(of_files.subtract == Subtract::kPixel);
  CHECK(of_files.mean_file == files.path("m.binaryproto"));
  CHECK(files.notes.empty());
  const caffe::MeanImage image = caffe::read_mean_file(of_files.mean_file).value();
  CHECK(image.shape == Shape{3, 2, 2});
  CHECK(image.values[3] == 14);
  files.put("m.binaryproto", blob({1, 2, 3}));
  CHECK_THAT(caffe::read_mean_file(of_files.mean_file).status().message(),
             Contains("m.binaryproto: 3 numbers, expected 12"));
  files.put("m.binaryproto", blob({1, 2, 3}).substr(0, 12));
  CHECK_THAT(caffe::read_mean_file(of_files.mean_file).status().message(), Contains("m.binaryproto: cut"));
}

TEST_CASE("layers_of_the_other_phase_do_not_matter_and_a_solver_may_name_weights") {
  Files files;
  const std::string only_tested =
      "layer { name: 'a' type: 'ArgMax' bottom: 'scores' top: 'a' include { phase: TEST } }\n"
      "layer { name: 'b' type: 'Python' bottom: 'nobody' top: 'b' include { phase: TEST } }\n";
  const RunConfig config =
      files.load(kQuick + only_tested, kSolver + "weights: 'begin.caffemodel'\n").value();
  CHECK(config.train.eval_samples == 10'000);
  CHECK(config.train.init_from == "begin.caffemodel");
  CHECK_THAT(files.refusal(kQuick, kSolver + "weights: 'a,b'\n"), Contains("solver.prototxt:11: weights"));
}

TEST_CASE("an_input_has_a_bound") {
  Files files;
  const auto model = [&](const std::string& dims) {
    return files.model("input: 'data' input_dim: 1 " + dims + "\n" + dense("f", "data", "scores", 10));
  };
  CHECK_THAT(model("input_dim: 3 input_dim: 0 input_dim: 8"), Contains("an input of 3 x 0 x 8, expected"));
  CHECK_THAT(model("input_dim: 3 input_dim: 65536 input_dim: 65536"), Contains("at most 2^28 numbers"));
  CHECK_THAT(files.model("input: 'data' input_shape { dim: 1 dim: 3 dim: -1 dim: 9223372036854775807 }\n" +
                         dense("f", "data", "scores", 10)),
             Contains("an input of 3 x -1 x 9223372036854775807"));
  CHECK_THAT(files.model(data("TRAIN", 1, "crop_size: 4000000000") + dense("f", "data", "scores", 10)),
             Contains("net.prototxt:1: layer d: an input of 3 x 4000000000"));
  CHECK_THAT(files.model(dense("f", "data", "scores", 10), "65536,65536,1"), Contains("--input: "));
}

TEST_CASE("what_changes_a_result_and_is_not_read_is_named") {
  Files files;
  const std::string counted =
      "layer { name: 'top5' type: 'Accuracy' bottom: 'scores' bottom: 'label' top: 'top5' accuracy_param {\n"
      "  top_k: 5 } propagate_down: false include { phase: TEST } }\n";
  REQUIRE(
      files.load(data("TRAIN", 10, "force_gray: true") + dense("f", "data", "scores", 10) + kEnd + counted)
          .is_ok());
  REQUIRE(files.notes.size() == 3);
  CHECK_THAT(files.notes[0], Contains("net.prototxt:1: force_gray is not known"));
  CHECK_THAT(files.notes[1], Contains("net.prototxt:6: propagate_down is not known"));
  CHECK_THAT(files.notes[2], Contains("net.prototxt: accuracy with top_k 5 is not counted"));
}

TEST_CASE("more_than_a_caffemodel_can_hold_is_refused_before_a_file_is_written") {
  Files files;
  Layout layout;
  REQUIRE(layout.add("f.weight", {1 << 16, 1 << 13}).is_ok());  // 2 GiB
  const std::string path = files.path("large.caffemodel");
  CHECK_THAT(caffe::write_weights(path, {"large", Version(1), Revision(1), layout}, {}).message(),
             Contains("large.caffemodel: 536870912 parameters, expected at most"));
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("weights_written_as_a_caffemodel_are_read_again_by_layer_name") {
  Files files;
  const RunConfig config = files.load(kQuick).value();
  const NetworkSpec network = build_network(config.train).value();
  std::vector<float> parameters(static_cast<std::size_t>(network.layout.size()));
  initialize_parameters(network, 5, parameters);
  const std::string path = files.path("quick.caffemodel");
  REQUIRE(caffe::write_weights(path, {"quick", Version(3), Revision(3), network.layout}, parameters).is_ok());
  const ModelFile read = caffe::read_weights(path).value();
  CHECK(read.parameters == parameters);
  std::vector<float> again(parameters.size());
  const TensorsTaken taken = take_parameters(read, path, network.layout, again).value();
  CHECK(taken.taken.size() == network.layout.tensors().size());
  CHECK(taken.kept.empty());
  CHECK(again == parameters);
  // Cut in the middle.
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  CHECK_THAT(caffe::read_weights(path).status().message(),
             Contains("quick.caffemodel: cut, or no caffemodel"));
}

TEST_CASE("a_caffemodel_of_pictures_reads_blue_first_and_ours_red_first") {
  Files files;
  const std::string one = "num_output: 1 kernel_size: 1";
  const std::string net = data("TRAIN", 10, "crop_size: 4") +
                          pool("p", "data", "p", "pool: MAX kernel_size: 2 stride: 2") +
                          conv("c", "p", "c", one) + dense("f", "c", "scores", 10) + kEnd;
  const RunConfig config =
      files.load(net, kTrainOnly, {"data.kind=images", "data.classes=10", "run.out=" + files.path("run")})
          .value();
  const NetworkSpec network = build_network(config).value();
  std::vector<float> parameters(static_cast<std::size_t>(network.layout.size()));
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] = static_cast<float>(i);
  std::filesystem::create_directory(files.path("run"));
  files.put("run/config.yaml", to_yaml(config));
  const ModelInfo info{"layers", Version(1), Revision(1), network.layout};
  REQUIRE(write_model_file(files.path("run/model.bin"), info, parameters).is_ok());
  std::ostringstream out;
  const std::string path = files.path("out.caffemodel");
  REQUIRE(export_model({files.path("run"), "caffemodel", path}, out, out) == 0);
  std::vector<float> written = caffe::read_weights(path).value().parameters;
  CHECK((written[0] == 2 && written[1] == 1 && written[2] == 0 && written[3] == 3));
  // And back; what the file does not have stays.
  std::vector<float> again(parameters.size());
  REQUIRE(caffe::take_blue_first(path, network, again).is_ok());
  CHECK(again == parameters);

  // A dense layer reads one colour after the other: here four pixels of each.
  const std::string flat = data("TRAIN", 10, "crop_size: 2") + dense("f", "data", "scores", 10) + kEnd;
  const NetworkSpec units =
      build_network(files.load(flat, kTrainOnly, {"data.kind=images", "data.classes=10"}).value()).value();
  std::vector<float> weights(static_cast<std::size_t>(units.layout.size()));
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i);
  REQUIRE(caffe::exchange_red_and_blue(units, weights).is_ok());
  CHECK((weights[0] == 8 && weights[4] == 4 && weights[11] == 3 && weights[12] == 20 && weights[120] == 120));
  // Where the outputs would change places as well.
  const std::string apart = data("TRAIN", 10, "crop_size: 4") +
                            conv("c", "data", "c", "num_output: 3 group: 3 kernel_size: 1") +
                            dense("f", "c", "scores", 10) + kEnd;
  const NetworkSpec grouped =
      build_network(files.load(apart, kTrainOnly, {"data.kind=images", "data.classes=10"}).value()).value();
  weights.resize(static_cast<std::size_t>(grouped.layout.size()));
  CHECK_THAT(caffe::exchange_red_and_blue(grouped, weights).message(),
             Contains("layer c keeps the picture's colours apart"));
}

TEST_CASE("a_caffemodel_has_caffes_bytes") {
  Layout layout;
  REQUIRE(layout.add("f.weight", {1, 2}).is_ok());
  REQUIRE(layout.add("f.bias", {1}).is_ok());
  Files files;
  const std::string path = files.path("tiny.caffemodel");
  REQUIRE(caffe::write_weights(path, {"tiny", Version(1), Revision(1), layout}, std::vector<float>{1, 2, 3})
              .is_ok());
  const std::string weight = field(5, floats({1, 2})) + field(7, field(1, "\x01\x02"));
  const std::string bias = field(5, floats({3})) + field(7, field(1, "\x01"));
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  CHECK(bytes == field(1, "tiny") + field(100, field(1, "f") + field(2, "InnerProduct") + field(7, weight) +
                                                   field(7, bias)));
}

// Field by field, by hand: layer is 100, its name 1, type 2, blobs 7; a blob's data 5, shape 7.
TEST_CASE("a_caffemodel_of_others_is_read") {
  const std::string weight = field(7, field(1, "\x02\x03")) + field(5, floats({1, 2, 3, 4, 5, 6}));
  // The four numbers of before: 1, 1, 1, 2.
  const std::string bias = std::string("\x08\x01\x10\x01\x18\x01\x20\x02") + field(5, floats({7, 8}));
  const std::string relu = field(100, field(1, "r") + field(2, "ReLU"));
  const std::string v2 =
      relu + field(100, field(1, "f") + field(2, "InnerProduct") + field(7, weight) + field(7, bias));
  // V1: layers 2, name 4, type 5 (an enum), blobs 6.
  const std::string v1 = field(2, field(4, "f") + "\x28\x0e" + field(6, weight) + field(6, bias));
  Files files;
  for (const std::string& bytes : {v2, v1}) {
    files.put("other.caffemodel", bytes);
    const ModelFile read = caffe::read_weights(files.path("other.caffemodel")).value();
    REQUIRE(read.info.layout.tensors().size() == 2);
    CHECK(read.info.layout.tensors()[0].name == "f.weight");
    CHECK(read.info.layout.tensors()[0].shape == std::vector<std::int64_t>{2, 3});
    CHECK(read.info.layout.tensors()[1].shape == std::vector<std::int64_t>{2});
    CHECK(read.parameters == std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8});
  }
}

TEST_CASE("what_cannot_be_trained_is_refused_by_file_line_and_layer") {
  Files files;
  const std::string head = data("TRAIN", 10);
  const std::string tail = dense("f", "data", "scores", 10) + kEnd;
  std::string no_net = kSolver;
  no_net.replace(0, no_net.find('\n') + 1, "");
  CHECK_THAT(files.refusal(kQuick, no_net), Contains("solver.prototxt: no net, expected one of net"));
  CHECK_THAT(files.refusal(kQuick, kSolver + "train_net: 'net.prototxt'"), Contains("2 nets to train"));
  CHECK_THAT(files.refusal(kQuick, "\nnet: 'elsewhere.prototxt'"),
             Contains("solver.prototxt:2: net: elsewhere.prototxt is not there"));
  CHECK_THAT(files.refusal(head + plain("Fancy", "data") + tail),
             Contains("net.prototxt:2: layer Fancy_data: type Fancy cannot be trained here"));
  CHECK_THAT(
      files.refusal(head + dense("g", "nobody", "g", 3) + tail),
      Contains("net.prototxt:2: layer g: bottom nobody, expected a blob that a layer before it makes"));
  // A blob that is read before it is made would be a cycle.
  CHECK_THAT(files.refusal(head + dense("g", "h", "g", 3) + dense("h", "g", "h", 3) + tail),
             Contains("net.prototxt:2: layer g: bottom h"));
  CHECK_THAT(files.refusal(head + dense("f", "data", "scores", 10)), Contains("no loss in phase TRAIN"));
  CHECK_THAT(files.refusal(head + conv("c", "data", "c", "num_output: 4 kernel_size: 40") +
                           dense("f", "c", "scores", 10) + kEnd),
             Contains("net.prototxt:2: ") && Contains("at layer c") &&
                 Contains("kernel 40 is larger than its input 3x32x32"));
  CHECK_THAT(files.refusal(head + conv("a", "data", "a", "num_output: 4 kernel_size: 3") +
                           conv("b", "data", "b", "num_output: 4 kernel_size: 5") +
                           "layer { name: 's' type: 'Eltwise' bottom: 'a' bottom: 'b' top: 's' }\n" +
                           dense("f", "s", "scores", 10) + kEnd),
             Contains("net.prototxt:4: ") && Contains("at layer s") && Contains("4x30x30 and 4x28x28"));
  CHECK_THAT(files.refusal(head + tail + "layer {"), Contains("net.prototxt:5: "));
  CHECK_THAT(files.refusal(head + "layer { name: 'r' type: 3 }"), Contains("net.prototxt:2: "));
  CHECK_THAT(files.refusal(head + dense("f", "data", "scores", 7) + kEnd),
             Contains("at layer f") && Contains("out 7"));
  const std::string twice = head + dense("g", "data", "side", 10) + dense("f", "data", "scores", 10) +
                            "layer { name: 'aside' type: 'HingeLoss' bottom: 'side' bottom: 'label'\n"
                            "  top: 'aside' loss_weight: 0.3 }\n" +
                            kEnd;
  CHECK_THAT(files.refusal(twice),
             Contains("net.prototxt:4: layer aside: type HingeLoss cannot be trained here"));
  CHECK(last_line(files.model(twice, "3,32,32")) == "parameters 61460");  // which can be looked at
  CHECK_THAT(files.refusal(head + dense("f", "data", "scores", 10) +
                           "layer { name: 'e' type: 'EuclideanLoss' bottom: 'scores' bottom: 'label' }"),
             Contains("net.prototxt:3: ") && Contains("at layer e") && Contains("one input of 10x1x1"));
  CHECK_THAT(files.refusal(head + dense("f", "data", "scores", 10) +
                           "layer { name: 'e' type: 'ContrastiveLoss' bottom: 'scores' bottom: 'label' }"),
             Contains("net.prototxt:3: layer e: 2 bottoms, expected two vectors and labels"));
  CHECK_THAT(files.refusal(head + dense("f", "data", "scores", 10) +
                           "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'scores' bottom: 'label'\n"
                           "  loss_param { ignore_label: 65791 } }"),
             Contains("layer l: ignore_label 65791, expected -1 to 65535"));
  // What no YAML could say.
  CHECK_THAT(files.refusal(kQuick, kTrainOnly + "iter_size: 900\n"),
             Contains("net.prototxt:1: train.batch_size: ") && Contains("90000"));
  CHECK_THAT(files.refusal(head + dense("f", "data", "g", 0) + dense("h", "g", "scores", 10) + kEnd),
             Contains("net.prototxt:2: train.layers[0].out: "));
  CHECK_THAT(files.refusal(kQuick, kSolver, {"train.model=cifar_cnn"}),
             Contains("train.model: given beside train.caffe_solver"));
  CHECK_THAT(files.refusal(data("TRAIN", 10, "mirror: true") + tail),
             Contains("net.prototxt:1: layer d: mirror"));
  CHECK(files.load(data("TRAIN", 10, "mirror: true") + tail, kTrainOnly, {"data.augment=true"}).is_ok());
}
