// `paceline evaluate` on a run directory made by hand: a network of one dense layer, parameters that always
// answer 3.
#include "tools/evaluate.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <sstream>
#include <vector>

#include "common/caffe/weights.h"
#include "common/config/load.h"
#include "common/files/atomic_file.h"
#include "common/params/init_from.h"
#include "common/params/model_file.h"
#include "common/params/partition.h"
#include "common/params/safetensors.h"
#include "server/checkpoint/folder.h"
#include "server/checkpoint/shard_file.h"
#include "tests/unit/temp_folder.h"
#include "tools/export.h"
#include "worker/data/synthetic.h"
#include "worker/network_task.h"

namespace paceline {
namespace {

using testing::TempFolder;

// Between machines, and without keys: what it takes to read a run is not what it takes to start one.
constexpr const char* kConfig = R"(
run: {name: evaluated, out: nowhere}
cluster: {endpoints: ["tcp://alpha:5555"]}
train: {model: layers, layers: [{kind: dense, out: 10}], batch_size: 8}
data: {path: %s}
)";

struct Run {
  TempFolder folder;
  std::string data = (folder / "data").string();
  RunConfig config;
  ModelFile model;

  Run() {
    SyntheticOptions synthetic;
    synthetic.out = data;
    synthetic.train_samples = 50;
    synthetic.test_samples = 40;
    REQUIRE(write_synthetic(synthetic).is_ok());
    std::string text = kConfig;
    text.replace(text.find("%s"), 2, data);
    config = parse_config(text, "test", {}, LoadFor::kReading).value();
    std::ofstream(folder / "config.yaml") << to_yaml(config);
    model.info = {"layers", Version(12), Revision(24), network_layout(config).value()};
    model.parameters.assign(static_cast<std::size_t>(model.info.layout.size()), 0.0F);
    model.parameters[model.parameters.size() - 10 + 3] = 100.0F;  // the bias of class 3
  }
  Status write() { return write_model_file(folder / "model.bin", model.info, model.parameters); }
};

TEST_CASE("evaluate prints loss and accuracy of the final model over the whole test set") {
  Run run;
  REQUIRE(run.write().is_ok());
  std::ostringstream out;
  std::ostringstream err;
  CHECK(evaluate({run.folder.path().string(), {}, {}}, out, err) == 0);
  INFO(err.str());
  // Of 40 samples of ten balanced classes four are right at no loss, and 36 are wrong by 100.
  CHECK_THAT(out.str(),
             Catch::Contains("version 12 of layers: test loss 90.0000, accuracy 10.00 % of 40 samples"));
}

// Of a test set that is sorted by class the first samples would be of one.
TEST_CASE("some samples are those of the run's own evaluations: spread over the test set") {
  Run run;
  run.config.train.eval_samples = 10;
  std::ofstream(run.folder / "config.yaml") << to_yaml(run.config);
  const std::filesystem::path test = std::filesystem::path(run.data) / "test_batch.bin";
  const std::string records = read_file(test, std::size_t{1} << 20).value();
  const std::size_t size = records.size() / 40;
  std::string sorted;
  for (std::size_t i = 0; i < 40; ++i) sorted += records.substr((i % 4 * 10 + i / 4) * size, size);
  std::ofstream(test, std::ios::binary) << sorted;
  REQUIRE(run.write().is_ok());
  std::ostringstream out;
  std::ostringstream err;
  CHECK(evaluate({run.folder.path().string(), {}, {}}, out, err) == 0);
  INFO(err.str());
  CHECK_THAT(out.str(), Catch::Contains("test loss 90.0000, accuracy 10.00 % of 10 samples"));
  const auto in_run =
      make_network_tasks(run.config).value()->make_evaluator().value()->evaluate(run.model.parameters);
  REQUIRE(in_run.is_ok());
  CHECK((in_run->samples == 10 && in_run->correct == 1));
}

// The checkpoint of version 7, cut over two shards.
void write_checkpoint(const Run& run) {
  const server::CheckpointFolder folder(run.folder.path(), fingerprint(run.config, AgreedBy::kRun));
  const CheckpointId id{1, Version(7)};
  REQUIRE(folder.make(id).is_ok());
  server::Manifest manifest;
  manifest.id = id;
  manifest.layout_hash = run.model.info.layout.hash();
  manifest.fingerprint = fingerprint(run.config, AgreedBy::kRun);
  const std::vector<Range> ranges = partition(run.model.info.layout.size(), 2);
  for (std::uint32_t k = 0; k < 2; ++k) {
    const auto part =
        std::span(run.model.parameters)
            .subspan(static_cast<std::size_t>(ranges[k].begin), static_cast<std::size_t>(ranges[k].size()));
    server::ShardImage image;
    image.version = id.version;
    image.revision = Revision(14);
    BlockPool pool(999, 0);
    image.parameters = BlockRange(pool, ranges[k].size());
    image.parameters.copy_from(0, part, pool);
    const server::ShardFileOwner owner{manifest.layout_hash, manifest.fingerprint, 1, ShardId(k), ranges[k]};
    const auto digest = write_shard_file(folder.shard_file(id, ShardId(k)), owner, std::move(image));
    REQUIRE(digest.is_ok());
    manifest.shards.push_back(*digest);
  }
  REQUIRE(write_manifest(folder.manifest(id), manifest).is_ok());
  REQUIRE(folder.set_best({id, 0.5}).is_ok());
}

TEST_CASE("evaluate takes any checkpoint, the best by its name, and any model file") {
  Run run;
  write_checkpoint(run);
  REQUIRE(write_model_file(run.folder / "another.bin", run.model.info, run.model.parameters));
  const std::string folder = run.folder.path().string();
  for (const auto& [what, version] : {std::pair{"/checkpoint/g1-v000000000007", "7"},
                                      std::pair{"/checkpoint/best", "7"}, std::pair{"/another.bin", "12"}}) {
    INFO(what);
    std::ostringstream out;
    std::ostringstream err;
    CHECK(evaluate({folder + what, {}, {}}, out, err) == 0);
    INFO(err.str());
    CHECK_THAT(out.str(), Catch::Contains(folder + what + ": version " + version +
                                          " of layers: test loss "
                                          "90.0000, accuracy 10.00 % of 40 samples"));
  }
}

TEST_CASE("evaluate takes a caffemodel and safetensors, which must have all tensors") {
  struct Kind {
    const char* file;
    const char* says;
    Status (*write)(const std::filesystem::path&, const ModelInfo&, std::span<const float>);
  };
  const auto kind = GENERATE(Kind{"a.caffemodel", ": Caffe's weights", &caffe::write_weights},
                             Kind{"a.safetensors", ": safetensors", &write_safetensors});
  Run run;
  const std::string path = (run.folder / kind.file).string();
  const auto evaluated = [&] {
    std::ostringstream out;
    std::ostringstream err;
    return std::pair{evaluate({path, {}, {}}, out, err), out.str() + err.str()};
  };
  REQUIRE(kind.write(path, run.model.info, run.model.parameters));
  CHECK(evaluated() ==
        std::pair{0, path + kind.says + " of layers: test loss 90.0000, accuracy 10.00 % of 40 samples\n"});
  Layout weight;
  REQUIRE(
      weight.add(run.model.info.layout.tensors()[0].name, run.model.info.layout.tensors()[0].shape).is_ok());
  run.model.info.layout = weight;
  run.model.parameters.resize(static_cast<std::size_t>(weight.size()));
  REQUIRE(kind.write(path, run.model.info, run.model.parameters));
  CHECK(evaluated().first == 2);
  CHECK_THAT(evaluated().second, Catch::Contains(".bias [10], expected all 2 tensors of the network"));
}

TEST_CASE("evaluate says what of a checkpoint is missing, and takes a configuration from elsewhere") {
  Run run;
  write_checkpoint(run);
  const auto evaluated = [&](const std::string& config) {
    std::ostringstream out;
    std::ostringstream err;
    const int status =
        evaluate({(run.folder / "checkpoint/g1-v000000000007").string(), {}, config}, out, err);
    return std::pair{status, err.str()};
  };
  const std::filesystem::path elsewhere = run.folder / "elsewhere.yaml";
  std::filesystem::rename(run.folder / "config.yaml", elsewhere);
  CHECK(evaluated("").first == 2);
  CHECK_THAT(evaluated("").second, Catch::Contains("config.yaml") && Catch::Contains("--config FILE"));
  CHECK(evaluated(elsewhere.string()).first == 0);
  std::filesystem::remove(run.folder / "checkpoint/g1-v000000000007/shard-1");
  CHECK(evaluated(elsewhere.string()).first == 2);
  CHECK_THAT(evaluated(elsewhere.string()).second,
             Catch::Contains("shard-1") && Catch::Contains("copy them together"));
}

// Each of two stages has two chunks of the network, so its tensors lie in another order.
TEST_CASE(
    "a model of interleaved stages is the network's own in every format, and begins a run in one piece") {
  Run run;
  const LayerConfig conv{.kind = LayerKind::kConv, .out = 4, .kernel = 5, .stride = 4, .padding = 2};
  run.config.train.layers = {conv,
                             {.kind = LayerKind::kRelu},
                             {LayerKind::kDense, 12},
                             {LayerKind::kDense, 14},
                             {LayerKind::kDense, 10}};
  RunConfig stages = run.config;
  stages.cluster.nodes = 2;
  stages.train.total_iterations = 40;
  stages.pipeline.stages = 2;
  stages.pipeline.micro_batches = 4;
  stages.pipeline.schedule = schedule::PipelineKind::kInterleaved;
  struct Folder {
    std::filesystem::path path;
    Layout layout;
    std::vector<float> parameters;
  };
  const auto folder_of = [&](const char* name, const RunConfig& config) {
    const auto path = run.folder / name;
    std::filesystem::create_directory(path);
    std::ofstream(path / "config.yaml") << to_yaml(config);
    Folder made{path, network_layout(config).value(), {}};
    made.parameters.resize(static_cast<std::size_t>(made.layout.size()));
    return made;
  };
  Folder whole = folder_of("whole", run.config);
  for (std::size_t i = 0; i < whole.parameters.size(); ++i) {
    whole.parameters[i] = 0.02F * std::sin(static_cast<float>(i));
  }
  const ModelInfo info{"layers", Version(1), Revision(1), whole.layout};
  REQUIRE(write_model_file(whole.path / "model.bin", info, whole.parameters).is_ok());
  // Into stages, which begin with it.
  Folder parts = folder_of("stages", stages);
  const auto begun = take_parameters(whole.path / "model.bin", parts.layout, parts.parameters);
  REQUIRE(begun.is_ok());
  CHECK((begun->kept.empty() && begun->unused.empty()));
  CHECK(parts.parameters != whole.parameters);
  const ModelInfo cut{"layers", Version(1), Revision(1), parts.layout};
  REQUIRE(write_model_file(parts.path / "model.bin", cut, parts.parameters).is_ok());
  // And back, by each format.
  std::ostringstream reported;
  const auto exported = [&](const Folder& from, const std::string& format) {
    const std::string file = (from.path / ("model." + format)).string();
    const int status = export_model({from.path.string(), format, file}, reported, reported);
    INFO(reported.str());
    REQUIRE(status == 0);
    return file;
  };
  constexpr std::size_t kEnough = std::size_t{1} << 20;
  CHECK(read_file(exported(parts, "onnx"), kEnough).value() ==
        read_file(exported(whole, "onnx"), kEnough).value());
  const auto back = [&](const ModelFile& file) {
    std::vector<float> taken(whole.parameters.size());
    REQUIRE(take_parameters(file, "file", whole.layout, taken).is_ok());
    return taken;
  };
  CHECK(back(read_safetensors(exported(parts, "safetensors")).value().model) == whole.parameters);
  CHECK(back(caffe::read_weights(exported(parts, "caffemodel")).value()) == whole.parameters);
  // Evaluated with its own configuration, and with one that has no stages.
  const auto evaluated = [](const Folder& of, const std::string& config) {
    std::ostringstream out;
    std::ostringstream err;
    CHECK(evaluate({(of.path / "model.bin").string(), {}, config}, out, err) == 0);
    return out.str().substr(out.str().find(": version"));
  };
  const std::string expected = evaluated(whole, "");
  CHECK(evaluated(parts, "") == expected);
  CHECK(evaluated(parts, (whole.path / "config.yaml").string()) == expected);
}

TEST_CASE("evaluate says in one line what is missing or does not fit") {
  Run run;
  std::ostringstream out;
  std::ostringstream err;
  CHECK(evaluate({run.folder.path().string(), {}, {}}, out, err) == 2);
  CHECK_THAT(err.str(), Catch::Contains("model.bin"));

  REQUIRE(run.write().is_ok());
  err.str("");
  CHECK(evaluate({run.folder.path().string(), "/nonexistent", {}}, out, err) == 2);
  CHECK_THAT(err.str(), Catch::Contains("data folder '/nonexistent' does not exist; say where") &&
                            Catch::Contains("--data FOLDER"));

  RunConfig own_task = run.config;
  own_task.data.path.clear();
  std::ofstream(run.folder / "config.yaml") << to_yaml(own_task);
  err.str("");
  CHECK(evaluate({run.folder.path().string(), {}, {}}, out, err) == 2);
  CHECK_THAT(err.str(), Catch::Contains("trained with a task of your own"));
  std::ofstream(run.folder / "config.yaml") << to_yaml(run.config);

  Layout other;
  REQUIRE(other.add("w", {3}).is_ok());
  run.model.info.layout = other;
  run.model.parameters.resize(3);
  REQUIRE(run.write().is_ok());
  err.str("");
  CHECK(evaluate({run.folder.path().string(), {}, {}}, out, err) == 2);
  CHECK_THAT(err.str(), Catch::Contains("model.bin"));
  CHECK(out.str().empty());
}

TEST_CASE("a test set that is missing or cut short, or no data.path, is said before anything is trained") {
  Run run;
  REQUIRE(make_network_tasks(run.config).is_ok());
  const std::filesystem::path test = std::filesystem::path(run.data) / "test_batch.bin";
  std::filesystem::resize_file(test, std::filesystem::file_size(test) - 1);
  const auto cut = make_network_tasks(run.config);
  CHECK(cut.status().code() == StatusCode::kDataLoss);
  CHECK_THAT(cut.status().message(), Catch::Contains("test_batch.bin': got"));
  std::filesystem::remove(test);
  CHECK(make_network_tasks(run.config).status().code() == StatusCode::kNotFound);
  run.config.data.path.clear();
  CHECK_THAT(make_network_tasks(run.config).status().message(), Catch::StartsWith("data.path: no data set"));
}

TEST_CASE("an evaluation computes no more samples at once than training does, and at most 256") {
  TrainSection train;
  const auto at_once = [&](std::int64_t batch_size, std::int64_t accumulate) {
    train.batch_size = batch_size;
    train.accumulate = accumulate;
    return evaluated_at_once(train);
  };
  CHECK(at_once(8, 1) == 8);
  CHECK(at_once(8, 3) == 3);
  CHECK(at_once(2048, 1) == 256);
  CHECK(at_once(2048, 16) == 128);
}

TEST_CASE("an evaluation ends early when nobody waits for it, one that begins later does not") {
  Run run;
  auto tasks = make_network_tasks(run.config).value();
  auto evaluator = tasks->make_evaluator().value();
  REQUIRE(evaluator->evaluate(run.model.parameters).is_ok());
  tasks->stop_evaluating();
  CHECK(evaluator->evaluate(run.model.parameters).status().code() == StatusCode::kAborted);
  CHECK(tasks->make_evaluator().value()->evaluate(run.model.parameters).is_ok());
}

}  // namespace
}  // namespace paceline
