// Which checkpoint a run goes on from: the newest that is whole on all shards; why others are not.
#include <catch2/catch.hpp>

#include "common/checkpoint/engine_state.h"
#include "common/config/engine_config.h"
#include "common/config/load.h"
#include "common/network/network.h"
#include "common/report/run_summary.h"
#include "server/run/resume.h"
#include "server/run/run_directory.h"
#include "tests/unit/checkpoint_fixture.h"
#include "tests/unit/temp_folder.h"

namespace paceline::server {
namespace {

using Catch::Contains;
using Catch::Matchers::EndsWith;

// Two nodes, two shards of four floats.
struct Folder {
  Folder() {
    config.cluster.nodes = 2;
    config.cluster.shards = 2;
    config.cluster.endpoints = {"ipc:///tmp/a", "ipc:///tmp/b"};
    config.train.total_iterations = 100;
    config.run.out = run.path();
  }
  CheckpointFolder folder() const { return {config.run.out, fingerprint(config, AgreedBy::kRun)}; }

  // A whole one, with which `change` has its way before it is written.
  void write(CheckpointId id, const std::function<void(Manifest&)>& change = [](Manifest&) {}) {
    REQUIRE(folder().make(id).is_ok());
    Manifest manifest;
    manifest.id = id;
    manifest.revision = Revision(2 * id.version.value);
    manifest.decisions = id.version.value;
    manifest.layout_hash = 0x1a707;
    manifest.fingerprint = fingerprint(config, AgreedBy::kRun);
    for (std::uint32_t k = 0; k < 2; ++k) {
      const ShardFileOwner owner{
          0x1a707, fingerprint(config, AgreedBy::kRun), id.generation, ShardId(k), {4 * k, 4 * k + 4}};
      ShardImage image = image_of(4, id.version.value, 0);
      const auto digest = write_shard_file(folder().shard_file(id, ShardId(k)), owner, std::move(image));
      REQUIRE(digest.is_ok());
      manifest.shards.push_back(*digest);
    }
    manifest.engine = checkpoint::to_bytes(state_at(id.version));
    RunRecordState record;
    for (std::uint32_t r = 0; r < 2; ++r) record.staleness.push_back({WorkerId(r, 0), {}, {}});
    manifest.record = to_bytes(record);
    change(manifest);
    REQUIRE(write_manifest(folder().manifest(id), manifest).is_ok());
  }
  sync::EngineState state_at(Version version) const {
    sync::EngineState state;
    state.cluster = config.cluster.cluster();
    state.total_iterations = config.train.total_iterations;
    state.batch_size = config.train.batch_size;
    state.version = version;
    state.revision = Revision(2 * version.value);
    state.left = {{2 * version.value, state.total_iterations - 2 * version.value}};
    state.workers.assign(2, {true, 0});
    state.lpr.window_clocks = sync::window_clocks_of(engine_config(config));
    return state;
  }
  // As the servers do.
  Result<ResumePoint> choose() const {
    auto choice = ResumeChoice::open(config);
    PACELINE_RETURN_IF_ERROR(choice.status());
    for (const std::uint32_t k : {0U, 1U}) {
      CHECK(choice->missing().front() == ShardId(k));
      auto own = own_files(config, ShardId(k));
      PACELINE_RETURN_IF_ERROR(own.status());
      choice->add(ShardId(k), own->intact);
    }
    return choice->choose();
  }
  void truncate(CheckpointId id, std::uint32_t shard) const {
    const auto file = folder().shard_file(id, ShardId(shard));
    std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  }

  testing::TempFolder run;
  RunConfig config;
};

constexpr CheckpointId kOlder{1, Version(10)};
constexpr CheckpointId kNewer{1, Version(20)};

TEST_CASE("the newest checkpoint is gone on from, as the next generation") {
  Folder f;
  f.write(kOlder);
  f.write(kNewer);
  const auto point = f.choose();
  INFO(point.status().message());
  REQUIRE(point.is_ok());
  CHECK(point->manifest.id == kNewer);
  CHECK(point->generation == 2);
  CHECK(point->engine.version == Version(20));
  CHECK(point->passed_over.empty());
}

TEST_CASE("a truncated file of any shard makes it pass to the one before, and is named") {
  for (const std::uint32_t shard : {0U, 1U}) {
    Folder f;
    f.write(kOlder);
    f.write(kNewer);
    f.truncate(kNewer, shard);
    const auto point = f.choose();
    REQUIRE(point.is_ok());
    CHECK(point->manifest.id == kOlder);
    REQUIRE(point->passed_over.size() == 1);
    CHECK_THAT(point->passed_over[0],
               Contains("version 20 of generation 1") && Contains("shard-" + std::to_string(shard)));
  }
}

TEST_CASE("a file that is intact but another than the manifest says is not gone on from") {
  Folder f;
  f.write(kOlder);
  f.write(kNewer, [](Manifest& manifest) { manifest.shards[1].checksum ^= 1; });
  const auto point = f.choose();
  REQUIRE(point.is_ok());
  CHECK(point->manifest.id == kOlder);
  CHECK_THAT(point->passed_over.at(0), Contains("shard 1 has another file"));
}

TEST_CASE("what a manifest holds of the core or the record must be this configuration's") {
  Folder f;
  f.write(kOlder);
  f.write(kNewer, [](Manifest& manifest) { manifest.engine = "nonsense"; });
  f.write({1, Version(30)}, [](Manifest& manifest) { manifest.record = ""; });
  f.write({1, Version(40)},
          [&](Manifest& manifest) { manifest.engine = checkpoint::to_bytes(f.state_at(Version(10))); });
  const auto point = f.choose();
  REQUIRE(point.is_ok());
  CHECK(point->manifest.id == kOlder);
  CHECK(point->passed_over.size() == 3);
}

TEST_CASE(
    "with none that is whole the error says where it looked and why each was refused; nothing is removed") {
  Folder f;
  f.write(kOlder);
  f.write(kNewer);
  f.truncate(kOlder, 0);
  f.truncate(kNewer, 1);
  std::filesystem::remove(f.folder().shard_file(kNewer, ShardId(0)));
  const auto point = f.choose();
  CHECK(point.status().code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(point.status().message(), Contains(f.config.run.out + "/checkpoint") &&
                                           Contains("version 10 of generation 1: ") &&
                                           Contains("version 20 of generation 1: "));
  CHECK(std::filesystem::exists(f.folder().manifest(kOlder)));
  CHECK(std::filesystem::exists(f.folder().manifest(kNewer)));
}

TEST_CASE("without any checkpoint that is said before anybody is asked") {
  Folder f;
  const auto nothing = ResumeChoice::open(f.config);
  CHECK(nothing.status().code() == StatusCode::kFailedPrecondition);
  CHECK(nothing.status().message() == "no checkpoint to resume from in " + f.config.run.out +
                                          "/checkpoint: it holds none that is whole; a run writes them with "
                                          "checkpoint.every_clocks or checkpoint.every");
}

TEST_CASE("another configuration's checkpoints are refused by name") {
  Folder f;
  f.write(kNewer);
  f.config.train.batch_size = 64;
  const auto nothing = ResumeChoice::open(f.config);
  CHECK_THAT(nothing.status().message(), Contains("version 20 of generation 1: "));
}

TEST_CASE("of another configuration the keys are named with both values, once for all checkpoints") {
  Folder f;
  const auto says = [&](Manifest& manifest) { manifest.settings = settings(f.config); };
  f.write(kOlder, says);
  f.write(kNewer, says);
  f.config.train.batch_size = 64;
  f.config.train.total_iterations = 200;
  CHECK(ResumeChoice::open(f.config).status().message() ==
        "no checkpoint to resume from in " + f.config.run.out +
            "/checkpoint; the checkpoint of version 20 of generation 1, of version 10 of generation 1: it is "
            "of "
            "another configuration: train.batch_size: got 64, expected 128");
}

// The parameters of another cut would lie elsewhere.
TEST_CASE("with chunks another cut is refused by name, before anything is begun") {
  Folder f;
  f.config.train.model = "layers";
  f.config.train.layers = {{LayerKind::kFlatten},  {LayerKind::kDense, 8}, {LayerKind::kDense, 8},
                           {LayerKind::kDense, 8}, {LayerKind::kDense, 8}, {LayerKind::kDense, 10}};
  f.config.pipeline.stages = 2;
  f.config.pipeline.micro_batches = 2;
  f.config.pipeline.schedule = schedule::PipelineKind::kInterleaved;
  f.config.pipeline.balance = {BalanceKind::kLayers, {2, 1, 1, 2}};
  f.write(kNewer, [&](Manifest& manifest) {
    manifest.layout_hash = build_network(f.config).value().layout.hash();
    manifest.settings = settings(f.config);
  });
  CHECK(f.choose().is_ok());
  f.config.train.total_iterations = 200;
  f.config.pipeline.balance = {BalanceKind::kLayers, {2, 1, 2, 1}};
  const auto point = f.choose();
  CHECK(point.status().code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(
      point.status().message(),
      EndsWith("version 20 of generation 1: with pipeline.schedule: interleaved a resume moves no parameters "
               "to another chunk: pipeline.balance: got [2, 1, 2, 1], expected [2, 1, 1, 2]"));
}

// Of the data nothing is known there, and the cut may be another one.
TEST_CASE("with a model that a loop cuts nothing is expected of the data but that all nodes have the same") {
  for (const bool by_loop : {true, false}) {
    Folder f;
    if (by_loop) f.config.pipeline.balance = {BalanceKind::kLayers, {}};
    f.write(kNewer, [](Manifest& manifest) { manifest.data_fingerprint = 0xDA7A; });
    CHECK(f.choose()->manifest.data_fingerprint.has_value() != by_loop);
  }
}

TEST_CASE("a run that has ended well is not resumed, but for more than it was to do; one that failed is") {
  Folder f;
  f.write(kNewer);
  RunSummary summary;
  summary.status = "failed";
  summary.iterations = 100;
  REQUIRE(write_summary(f.config.run.out, summary).is_ok());
  CHECK(f.choose().is_ok());
  summary.status = "ok";
  REQUIRE(write_summary(f.config.run.out, summary).is_ok());
  CHECK_THAT(f.choose().status().message(),
             Contains("ended well") && Contains("all 100 iterations") && Contains("train.total_iterations"));
  f.config.train.total_iterations = 130;
  const auto longer = f.choose();
  REQUIRE(longer.is_ok());
  CHECK(longer->engine.left == sync::IterationRanges{{40, 90}});
}

TEST_CASE("a run that ended by time is resumed once it may take longer") {
  Folder f;
  f.write(kNewer);
  f.config.run.max_seconds = std::chrono::seconds(10);
  RunSummary summary;
  summary.status = "ok";
  summary.iterations = 40;
  summary.wall_seconds = 10.2;
  REQUIRE(write_summary(f.config.run.out, summary).is_ok());
  CHECK_THAT(f.choose().status().message(), Contains("10.20 s") && Contains("run.max_seconds"));
  f.config.run.max_seconds = std::chrono::seconds(20);
  CHECK(f.choose().is_ok());
  f.config.run.max_seconds.reset();
  CHECK(f.choose().is_ok());
}

TEST_CASE("a run that reached its target is resumed once that is higher") {
  Folder f;
  f.write(kNewer);
  f.config.run.target_accuracy = 0.6;
  RunSummary summary;
  summary.iterations = 40;
  summary.test_accuracy = 0.62;
  REQUIRE(write_summary(f.config.run.out, summary).is_ok());
  CHECK_THAT(f.choose().status().message(), Contains("0.62") && Contains("run.target_accuracy"));
  CHECK(find_resumable(f.config, kAuthority).value() == Resumable::kFinished);
  f.config.run.target_accuracy = 0.7;
  CHECK(f.choose().is_ok());
}

TEST_CASE("what a run directory holds is told from what it does not") {
  Folder f;
  CHECK(find_resumable(f.config, kAuthority).value() == Resumable::kNothingToResume);
  RunSummary summary;
  summary.iterations = 40;
  REQUIRE(write_summary(f.config.run.out, summary).is_ok());
  // It ended well, with less than it might do, and left nothing to go on from: its model is not begun over.
  CHECK(find_resumable(f.config, kAuthority).value() == Resumable::kFinished);
  f.write(kNewer);
  CHECK(find_resumable(f.config, kAuthority).value() == Resumable::kCheckpoint);
  f.config.train.batch_size *= 2;
  CHECK(find_resumable(f.config, kAuthority).value() == Resumable::kOtherConfiguration);
}

TEST_CASE("a run that was stopped with a model, and left no checkpoint, is not begun over") {
  Folder f;
  RunSummary summary;
  summary.status = "stopped";
  REQUIRE(write_summary(f.config.run.out, summary).is_ok());
  put_file(f.run.path() / "model.bin", "a model");
  const auto found = [&](ShardId shard) { return find_resumable(f.config, shard).value(); };
  CHECK(found(kAuthority) == Resumable::kNothingToResume);  // it never came to anything
  summary.iterations = 40;
  REQUIRE(write_summary(f.config.run.out, summary).is_ok());
  CHECK(found(kAuthority) == Resumable::kModelAlone);
  CHECK(found(ShardId(1)) == Resumable::kModelAlone);
  CHECK(ResumeChoice::open(f.config).status().message() ==
        "no checkpoint to resume from in " + f.config.run.out +
            "/checkpoint: it holds none that is whole; a run writes them with checkpoint.every_clocks or "
            "checkpoint.every; the run there (stopped, 40 iterations) left a model (model.bin) and nothing "
            "to go on "
            "from; --force (--existing replace) replaces it");
  std::filesystem::remove(f.run.path() / "model.bin");
  CHECK(found(kAuthority) == Resumable::kNothingToResume);
}

TEST_CASE("a generation that left no checkpoint counts, too") {
  Folder f;
  f.write(kNewer);
  CHECK(f.folder().last_generation().value() == 1);
  REQUIRE(f.folder().begin_generation(2).is_ok());
  CHECK(f.choose()->generation == 3);
  put_file(f.run.path() / "checkpoint" / "generation", "two\n");
  CHECK(f.choose().status().code() == StatusCode::kDataLoss);
  REQUIRE(f.folder().clear().is_ok());
  CHECK_FALSE(std::filesystem::exists(f.run.path() / "checkpoint"));
}

TEST_CASE("beside a live server of its shard none begins, replaces or goes on, and nothing is touched") {
  Folder f;
  const auto given = f.run.path() / "given.yaml";
  const auto take = [&](ShardId shard, Existing existing) {
    return take_run_directory(f.config, shard, existing, given);
  };
  auto live = take(kAuthority, Existing::kRefuse);
  REQUIRE(live.is_ok());
  f.write(kNewer);
  put_file(log_file(f.config, kAuthority), "a line of the live server");
  for (const Existing existing : {Existing::kReplace, Existing::kContinue}) {
    const Status refused = take(kAuthority, existing).status();
    CHECK(refused.code() == StatusCode::kFailedPrecondition);
    CHECK_THAT(refused.message(), Contains("still alive") && Contains("server.log"));
  }
  CHECK(std::filesystem::exists(f.folder().manifest(kNewer)));
  CHECK(std::filesystem::file_size(log_file(f.config, kAuthority)) > 0);
  CHECK(take(ShardId(1), Existing::kReplace).is_ok());  // of another shard

  live->held.reset();
  CHECK(take(kAuthority, Existing::kContinue).is_ok());
  CHECK(std::filesystem::exists(f.folder().manifest(kNewer)));
  const auto anew = take(kAuthority, Existing::kReplace);
  CHECK(anew.is_ok());
  CHECK(std::filesystem::file_size(log_file(f.config, kAuthority)) == 0);
  CHECK_FALSE(take(kAuthority, Existing::kReplace).is_ok());
}

TEST_CASE(
    "a run that goes on records its end and where its daemons meet now, and nothing else of one daemon") {
  Folder f;
  const auto recorded = [&] { return load_config((f.run.path() / "config.yaml").string(), {}).value(); };
  const std::string level = f.config.run.log_level;
  REQUIRE(prepare_run_directory(f.config, kAuthority, Existing::kReplace, "given.yaml").is_ok());
  CHECK(recorded().cluster.endpoints == f.config.cluster.endpoints);
  f.config.cluster.endpoints = {"ipc:///tmp/c", "ipc:///tmp/d"};
  f.config.run.log_level = "debug";
  f.config.train.total_epochs = 2;
  f.config.train.total_iterations = 200;  // of 128 samples
  f.config.data.train_samples = 12'800;
  REQUIRE(record_resumed(f.config).is_ok());
  CHECK((recorded().train.total_iterations == 200 && recorded().train.total_epochs == 2.0));
  CHECK(recorded().cluster.endpoints == f.config.cluster.endpoints);
  CHECK(recorded().run.log_level == level);
}

TEST_CASE("a run that goes on with other train_samples records the versions that it goes by") {
  Folder f;
  const auto recorded = [&] { return load_config((f.run.path() / "config.yaml").string(), {}).value(); };
  ScheduleSection& schedule = f.config.train.optimizer.schedule;
  f.config.data.train_samples = 640;
  schedule.warmup_epochs = 2;
  schedule.warmup_versions = 5;  // of 256 samples
  REQUIRE(prepare_run_directory(f.config, kAuthority, Existing::kReplace, "given.yaml").is_ok());
  REQUIRE(recorded().train.optimizer.schedule.warmup_versions == 5);
  f.config.data.train_samples = 1280;
  schedule.warmup_epochs.reset();
  REQUIRE(record_resumed(f.config).is_ok());
  CHECK(recorded().train.optimizer.schedule.warmup_versions == 5);
  CHECK(recorded().data.train_samples == 1280);
  CHECK(fingerprint(recorded()) == fingerprint(f.config));
}

TEST_CASE("a run directory with checkpoints is used anew with --force alone, which removes them") {
  Folder f;
  f.write(kNewer);
  const auto given = f.run.path() / "given.yaml";
  const Status refused = prepare_run_directory(f.config, kAuthority, Existing::kRefuse, given);
  CHECK(refused.code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(refused.message(), Contains("--force") && Contains("--resume"));
  // Another shard may be started by mistake beside an authority that goes on: what it has stays until it is
  // told that a run begins.
  CHECK_THAT(prepare_run_directory(f.config, ShardId(1), Existing::kRefuse, given).message(),
             Contains("--force") && Contains("--resume"));
  CHECK(prepare_run_directory(f.config, ShardId(1), Existing::kReplace, given).is_ok());
  CHECK(std::filesystem::exists(f.folder().shard_file(kNewer, ShardId(1))));
  CHECK(prepare_run_directory(f.config, kAuthority, Existing::kReplace, given).is_ok());
  CHECK_FALSE(std::filesystem::exists(f.run.path() / "checkpoint"));
}

}  // namespace
}  // namespace paceline::server
