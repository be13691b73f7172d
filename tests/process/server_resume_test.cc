// Servers over real sockets that go on from a checkpoint, spoken to by a node whose every word is in the
// test.
#include <algorithm>
#include <catch2/catch.hpp>
#include <future>
#include <string>
#include <vector>

#include "common/params/model_file.h"
#include "common/report/run_summary.h"
#include "server/checkpoint/folder.h"
#include "tests/process/scripted_node.h"
#include "tests/unit/temp_folder.h"

namespace paceline::server {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;

constexpr std::int64_t kParameters = 5;
const ServerOptions kResume{nullptr, true};

// One node with one thread, two iterations on two shards; SGD with rate 1, so that gradients can be read off
// the parameters.
RunConfig saving_config(const testing::TempFolder& folder) {
  RunConfig config;
  config.run.out = folder.path();
  config.cluster.shards = 2;
  config.cluster.endpoints.clear();
  for (const char* name : {"r0", "r1"})
    config.cluster.endpoints.push_back("ipc://" + (folder / name).string());
  config.cluster.heartbeat = 50ms;
  config.cluster.frame_bytes = 8;
  config.train.total_iterations = 2;
  config.train.optimizer.lr = 1.0;
  config.checkpoint.every_clocks = 1;
  return config;
}

// Shard k is pushed k + 1.
void push_and_report(ScriptedNode& node, std::int64_t clock) {
  constexpr std::size_t kFloatsOf[] = {3, 2};
  for (std::size_t k = 0; k < 2; ++k) {
    const wire::Push push{WorkerId(0, 0), Clock(clock), 0, true, 4, Version(clock), Revision(clock)};
    node.send(k, push, std::vector<float>(kFloatsOf[k], static_cast<float>(k + 1)));
  }
  node.send(0, report_at(clock));
}

// A run of which version 1 is saved, and whose second shard then goes. With a context of its own: once that
// is gone its sockets no longer hold their names.
void train_and_lose_a_shard(const RunConfig& config) {
  wire::Context context;
  std::promise<void> written;
  bool once = false;
  const Log log = Log::to([&](LogLevel, const std::string& text) {
    if (text.find(" is written: ") != std::string::npos && !std::exchange(once, true)) written.set_value();
  });
  RunningServer authority(config, ShardId(0), context, log);
  auto other = std::make_unique<RunningServer>(config, ShardId(1), context);
  REQUIRE((authority.started().is_ok() && other->started().is_ok()));
  ScriptedNode node(context, config.cluster.endpoints);
  node.send_to_all(join_of(config, 0, kParameters));
  for (std::size_t k = 0; k < 2; ++k) {
    const auto welcome = node.receive<wire::Welcome>(k);
    CHECK((welcome.generation == 1 && !welcome.initialized));
    node.send(k, wire::InitialParameters{0, true},
              std::vector<float>(static_cast<std::size_t>(welcome.range.size()), 10));
  }
  CHECK(node.receive<wire::Grant>(0).clock == Clock(0));
  push_and_report(node, 0);
  REQUIRE(written.get_future().wait_for(60s) == std::future_status::ready);
  other.reset();
  CHECK(node.receive<wire::RunOver>(0).resumable);
  CHECK(authority.result().code() == StatusCode::kUnavailable);
}

TEST_CASE("servers that resume go on from their checkpoint, with a node that had come before them all") {
  const testing::TempFolder folder;
  const RunConfig config = saving_config(folder);
  wire::Context context;
  train_and_lose_a_shard(config);

  ScriptedNode node(context, config.cluster.endpoints);
  wire::Join join = join_of(config, 0, kParameters);
  join.last_generation = 1;
  node.send_to_all(join);
  RunningServer authority(config, ShardId(0), context, Log(), kResume);
  REQUIRE(authority.started().is_ok());
  RunningServer other(config, ShardId(1), context, Log(), kResume);
  REQUIRE(other.started().is_ok());
  for (std::size_t k = 0; k < 2; ++k) {
    const auto welcome = node.receive<wire::Welcome>(k);
    CHECK((welcome.generation == 2 && welcome.initialized));
  }
  const auto grant = node.receive<wire::Grant>(0);
  CHECK((grant.clock == Clock(1) && grant.iteration == 1 && grant.min_version == Version(1)));
  node.send(1, wire::Pull{7, Version(1), false, kNoRevision});
  wire::Payload payload;
  CHECK(node.receive<wire::Parameters>(1, &payload).version == Version(1));
  CHECK(payload.floats()[0] == 8.0F);
  push_and_report(node, 1);

  CHECK(node.receive<wire::FinishWorker>(0).reason == "share done");
  node.send(0, wire::EvaluationReport{node.receive<wire::Evaluate>(0).version, {3.0, 9, 10}, ""});
  wire::NodeReport report;
  report.workers.push_back({WorkerId(0, 0), {}, 1, 0, 0});
  node.send(0, report);
  CHECK(node.receive<wire::RunOver>(0).code == StatusCode::kOk);
  CHECK(authority.result().is_ok());
  CHECK(other.result().is_ok());
  const auto summary = read_summary(folder.path());
  REQUIRE(summary.is_ok());
  CHECK((summary->status == "ok" && summary->iterations == 2));
  CHECK((summary->generation == 2 && summary->resumed_from == Version(1)));
  CHECK(read_model_file(folder / "model.bin")->parameters == std::vector<float>{8, 8, 8, 6, 6});
}

TEST_CASE("a node of another layout than the checkpoint's is refused, and the run waits for the right one") {
  const testing::TempFolder folder;
  const RunConfig config = saving_config(folder);
  wire::Context context;
  train_and_lose_a_shard(config);
  RunningServer authority(config, ShardId(0), context, Log(), kResume);
  RunningServer other(config, ShardId(1), context, Log(), kResume);
  ScriptedNode right(context, config.cluster.endpoints);
  right.send_to_all(join_of(config, 0, kParameters));
  CHECK(right.receive<wire::Welcome>(0).generation == 2);
  ScriptedNode wrong(context, config.cluster.endpoints);
  wrong.send(0, join_of(config, 0, kParameters + 1));
  const auto error = wrong.receive<wire::Error>(0);
  CHECK(error.fatal);
  CHECK_THAT(error.message, Contains("as the checkpoint has"));
}

TEST_CASE("a node that speaks before it is welcomed is refused, and the run goes on without it") {
  const testing::TempFolder folder;
  const RunConfig config = saving_config(folder);
  wire::Context context;
  train_and_lose_a_shard(config);
  RunningServer authority(config, ShardId(0), context, Log(), kResume);
  REQUIRE(authority.started().is_ok());
  ScriptedNode node(context, config.cluster.endpoints);
  node.send(0, join_of(config, 0, kParameters));
  SECTION("with parameters") { node.send(0, wire::InitialParameters{0, true}, std::vector<float>(3, 10)); }
  SECTION("with a push") {
    node.send(0, wire::Push{WorkerId(0, 0), Clock(0), 0, true, 4, Version(0), Revision(0)},
              std::vector<float>(3, 1));
  }
  SECTION("with a report") { node.send(0, wire::NodeReport{}); }
  const auto error = node.receive<wire::Error>(0);
  CHECK((error.fatal && error.code == StatusCode::kFailedPrecondition));
  CHECK_THAT(error.message, Contains("has not read its checkpoint yet"));
  // The authority lives, and tells the other shard where the run goes on.
  RunningServer other(config, ShardId(1), context, Log(), kResume);
  REQUIRE(other.started().is_ok());
  ScriptedNode right(context, {config.cluster.endpoints[1]});
  right.send(0, join_of(config, 0, kParameters));
  CHECK(right.receive<wire::Welcome>(0).generation == 2);
}

TEST_CASE(
    "until its welcome a node may be started again, whether the process before has left or was killed") {
  const testing::TempFolder folder;
  const RunConfig config = saving_config(folder);
  wire::Context context;
  train_and_lose_a_shard(config);
  RunningServer authority(config, ShardId(0), context, Log(), kResume);
  REQUIRE(authority.started().is_ok());
  wire::Join join = join_of(config, 0, kParameters);
  ScriptedNode first(context, config.cluster.endpoints);
  first.send(0, join);
  (void)first.receive<wire::Heartbeat>(0);  // it is in
  join.incarnation = 2;
  const auto refused = [&](wire::Join bad) {
    bad.config_fingerprint += 1;
    ScriptedNode stranger(context, config.cluster.endpoints);
    stranger.send(0, bad);
    CHECK_THAT(stranger.receive<wire::Error>(0).message, Contains("fingerprint"));
  };
  ScriptedNode second(context, config.cluster.endpoints);
  SECTION("left") {
    first.send(0, wire::Leave{"stopped by a signal"});
    second.send_to_all(join);
  }
  SECTION("killed") {
    refused(join);
    second.send_to_all(join);
    CHECK_THAT(first.receive<wire::Error>(0).message, Contains("another process of node 0 has joined"));
  }
  RunningServer other(config, ShardId(1), context, Log(), kResume);
  REQUIRE(other.started().is_ok());
  for (std::size_t k = 0; k < 2; ++k) CHECK(second.receive<wire::Welcome>(k).generation == 2);
  CHECK(second.receive<wire::Grant>(0).clock == Clock(1));
}

TEST_CASE("a node that has outlived its servers is told so by the next ones, and nothing is refused") {
  const testing::TempFolder folder;
  const RunConfig config = saving_config(folder);
  wire::Context context;
  train_and_lose_a_shard(config);

  std::vector<std::string> warned;
  const Log log = Log::to([&](LogLevel level, const std::string& text) {
    if (level >= LogLevel::kWarn) warned.push_back(text);
  });
  {
    wire::Join join = join_of(config, 0, kParameters);
    const auto received = [&] {
      ScriptedNode outlived(context, config.cluster.endpoints);
      join.goes_on = 1;
      outlived.send(0, join);
      const auto error = outlived.receive<wire::Error>(0);
      return error.fatal && error.code == StatusCode::kFailedPrecondition ? error.message : "";
    };
    RunningServer authority(config, ShardId(0), context, log, kResume);
    REQUIRE(authority.started().is_ok());
    CHECK(received() == "node 0 would go on with generation 1 of the run, expected it to join the next one");
    RunningServer other(config, ShardId(1), context, Log(), kResume);
    REQUIRE(other.started().is_ok());
    ScriptedNode node(context, config.cluster.endpoints);
    join.goes_on = 0;
    join.last_generation = 1;
    node.send_to_all(join);
    for (std::size_t k = 0; k < 2; ++k) CHECK(node.receive<wire::Welcome>(k).generation == 2);
    CHECK(received() == "node 0 would go on with generation 1 of the run, expected 2");
  }
  CHECK(std::none_of(warned.begin(), warned.end(), [](const std::string& line) {
    return line.find("refused") != std::string::npos || line.find("would go on") != std::string::npos;
  }));
}

TEST_CASE("a process that has been in this generation has met another server, and is refused") {
  const testing::TempFolder folder;
  RunConfig config = saving_config(folder);
  config.cluster.shards = 1;
  config.cluster.endpoints.pop_back();
  wire::Context context;
  RunningServer server(config, ShardId(0), context);
  REQUIRE(server.started().is_ok());
  ScriptedNode node(context, config.cluster.endpoints);
  wire::Join join = join_of(config, 0, kParameters);
  join.last_generation = 1;
  node.send(0, join);
  const auto error = node.receive<wire::Error>(0);
  CHECK((error.fatal && error.code == StatusCode::kFailedPrecondition));
  CHECK_THAT(error.message, Contains("generation 1 of the run, expected one before 1"));
}

TEST_CASE("servers of which one alone resumes refuse each other") {
  const testing::TempFolder folder;
  const RunConfig config = saving_config(folder);
  wire::Context context;
  train_and_lose_a_shard(config);
  const bool authority_resumes = GENERATE(false, true);
  RunningServer authority(config, ShardId(0), context, Log(), {nullptr, authority_resumes});
  RunningServer other(config, ShardId(1), context, Log(), {nullptr, !authority_resumes});
  CHECK_THAT(other.result().message(), Contains("--resume"));
}

TEST_CASE("a shard that is told that a run begins removes what it has of another, and not before") {
  const testing::TempFolder folder;
  const RunConfig config = saving_config(folder);
  train_and_lose_a_shard(config);
  const auto file = CheckpointFolder(folder.path(), fingerprint(config, AgreedBy::kRun))
                        .shard_file({1, Version(1)}, ShardId(1));
  wire::Context context;
  {
    RunningServer resumes(config, ShardId(0), context, Log(), kResume);
    REQUIRE(resumes.started().is_ok());
    RunningServer other(config, ShardId(1), context);
    CHECK_FALSE(other.result().is_ok());
  }
  CHECK(std::filesystem::exists(file));
  {
    RunConfig anew = config;
    anew.cluster.endpoints = {"ipc://" + (folder / "s0").string(), "ipc://" + (folder / "s1").string()};
    std::promise<void> joined;
    const Log log = Log::to([&](LogLevel, const std::string& text) {
      if (text.find("joined the authority") != std::string::npos) joined.set_value();
    });
    RunningServer begins(anew, ShardId(0), context);
    RunningServer other(anew, ShardId(1), context, log);
    REQUIRE((begins.started().is_ok() && other.started().is_ok()));
    REQUIRE(joined.get_future().wait_for(60s) == std::future_status::ready);
  }
  CHECK_FALSE(std::filesystem::exists(file));
}

TEST_CASE("what a run is resumed from waits for all shards, and names those that do not come") {
  const testing::TempFolder folder;
  RunConfig config = saving_config(folder);
  wire::Context context;
  train_and_lose_a_shard(config);
  config.cluster.start_timeout = 200ms;
  RunningServer authority(config, ShardId(0), context, Log(), kResume);
  REQUIRE(authority.started().is_ok());
  CHECK_THAT(authority.result().message(), Contains("shard 1 did not join"));
  CHECK(CheckpointFolder(folder.path(), fingerprint(config, AgreedBy::kRun)).complete()->checkpoints.size() ==
        1);
}

}  // namespace
}  // namespace paceline::server
