// Servers over real sockets, spoken to by a node whose every word is in the test.
#include <catch2/catch.hpp>
#include <fstream>
#include <future>
#include <set>

#include "common/config/load.h"
#include "common/params/model_file.h"
#include "common/report/run_summary.h"
#include "common/wire/shared_memory.h"
#include "server/run/run_directory.h"
#include "tests/process/scripted_node.h"
#include "tests/unit/temp_folder.h"

namespace paceline::server {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;

constexpr std::int64_t kFloats = 5;

// One node with one thread, two iterations; SGD with rate 1, so that gradients can be read off the
// parameters.
RunConfig config_in(const testing::TempFolder& folder, std::uint32_t shards) {
  RunConfig config;
  config.run.out = folder.path();
  config.cluster.shards = shards;
  config.cluster.endpoints.clear();
  for (std::uint32_t k = 0; k < shards; ++k) {
    config.cluster.endpoints.push_back("ipc://" + (folder / ("s" + std::to_string(k))).string());
  }
  config.cluster.heartbeat = 50ms;
  config.cluster.frame_bytes = 8;
  config.train.total_iterations = 2;
  config.train.optimizer.lr = 1.0;
  return config;
}

// Joins a run of one node over one server, in which training then begins.
void begin(ScriptedNode& node, const RunConfig& config, std::int64_t floats = kFloats) {
  node.send(0, join_of(config, 0, floats));
  node.receive<wire::Welcome>(0);
  const std::int64_t piece = floats / 5;
  for (std::int64_t at = 0; at < floats; at += piece) {
    node.send(0, wire::InitialParameters{at, at + piece == floats},
              std::vector<float>(static_cast<std::size_t>(piece)));
  }
  node.receive<wire::Grant>(0);
}

// Asks for more than ZeroMQ and the system take in for a node that reads nothing.
void ask_for_more_than_is_read(ScriptedNode& node, const RunConfig& config) {
  begin(node, config, 1'000'000);
  node.send(0, wire::Pull{1, Version(0), false, kNoRevision});
}

TEST_CASE("a whole run over two shards, word by word") {
  const testing::TempFolder folder;
  const RunConfig config = config_in(folder, 2);
  wire::Context context;
  std::string malformed;  // on the authority's thread
  const Log log = Log::to([&](LogLevel level, const std::string& line) {
    if (level == LogLevel::kWarn && line.starts_with("malformed")) malformed = line;
  });
  RunningServer authority(config, ShardId(0), context, log);
  RunningServer other(config, ShardId(1), context);
  REQUIRE((authority.started().is_ok() && other.started().is_ok()));
  ScriptedNode node(context, config.cluster.endpoints);

  node.send_to_all(join_of(config, 0, kFloats));
  const Range ranges[] = {node.receive<wire::Welcome>(0).range, node.receive<wire::Welcome>(1).range};
  CHECK((ranges[0] == Range{0, 3} && ranges[1] == Range{3, 5}));
  for (std::size_t k = 0; k < 2; ++k) {
    node.send(k, wire::InitialParameters{0, true},
              std::vector<float>(static_cast<std::size_t>(ranges[k].size()), 10));
  }

  for (std::int64_t clock = 0; clock < 2; ++clock) {
    const auto grant = node.receive<wire::Grant>(0);
    CHECK((grant.clock == Clock(clock) && grant.learning_rate == 1.0));
    for (std::size_t k = 0; k < 2; ++k) {
      const auto floats = static_cast<std::size_t>(ranges[k].size());
      const wire::Push push{WorkerId(0, 0), Clock(clock), 0, true, 4, Version(clock), Revision(clock)};
      node.send(k, push, std::vector<float>(floats, static_cast<float>(k + 1)));
    }
    node.send(0, report_at(clock));
    // Right after the push, for the version that it makes: held until it is there, answered in frames.
    node.send(1, wire::Pull{7, Version(clock + 1), false, kNoRevision});
    wire::Payload payload;
    auto piece = node.receive<wire::Parameters>(1, &payload);
    CHECK((piece.request == 7 && piece.version == Version(clock + 1)));
    CHECK(payload.floats()[0] == 10.0F - 2.0F * static_cast<float>(clock + 1));
    if (!piece.last) piece = node.receive<wire::Parameters>(1);
    CHECK(piece.last);
    CHECK(piece.applied == std::vector<Clock>{Clock(clock + 1)});
  }

  CHECK(node.receive<wire::FinishWorker>(0).reason == "share done");
  const auto evaluate = node.receive<wire::Evaluate>(0);
  CHECK((evaluate.final_model && evaluate.version == Version(2)));
  // What is refused, by the codec or by its meaning, is counted once each.
  node.send(0, wire::Push{WorkerId(0, 0), Clock(2), 0, true, /*samples=*/0, {}, {}});
  CHECK_THAT(node.receive<wire::Error>(0).message, Contains("samples"));
  node.send(1, wire::Push{WorkerId(0, 0), Clock(2), 0, true, /*samples=*/0, {}, {}});
  CHECK_THAT(node.receive<wire::Error>(1).message, Contains("samples"));
  node.send(1, wire::Push{WorkerId(0, 0), Clock(1), 0, true, 4, Version(1), Revision(1)}, {2, 2});  // again
  CHECK_FALSE(node.receive<wire::Error>(1).fatal);
  node.send(0, wire::EvaluationReport{Version(1), {3.0, 9, 10}, ""});
  CHECK_THAT(node.receive<wire::Error>(0).message, Contains("not asked for"));
  node.send(0, wire::Pull{8, evaluate.version, true, kNoRevision});
  CHECK(node.receive<wire::Parameters>(0).version == Version(2));
  node.send(0, wire::EvaluationReport{evaluate.version, {3.0, 9, 10}, ""});
  wire::NodeReport report;
  report.workers.push_back({WorkerId(0, 0), {}, 2, 0, 0});
  node.send(0, report);
  CHECK(node.receive<wire::RunOver>(0).code == StatusCode::kOk);
  CHECK(authority.result().is_ok());
  CHECK(other.result().is_ok());
  CHECK_THAT(malformed, Contains("malformed message from node 0: ") && Contains("samples"));

  const auto summary = read_summary(folder.path());
  REQUIRE(summary.is_ok());
  CHECK((summary->status == "ok" && summary->iterations == 2 && summary->test_accuracy == 0.9));
  CHECK(summary->malformed == 4);
  const auto staleness = read_staleness(folder.path());
  REQUIRE(staleness.is_ok());
  CHECK(staleness->at(0).clocks.histogram == std::vector<std::pair<std::uint16_t, std::int64_t>>{{0, 2}});
  CHECK(staleness->at(0).gradients.count == 2);
  CHECK(summary->pulls == 5);         // two, one exact, and the authority's two of the final model
  CHECK(summary->bytes_pushed > 40);  // 2 x 5 floats and their headers
  CHECK(read_model_file(folder / "model.bin")->parameters == std::vector<float>{8, 8, 8, 6, 6});
}

TEST_CASE("a shard without an authority names who did not come within start_timeout") {
  const testing::TempFolder folder;
  RunConfig config = config_in(folder, 2);
  config.cluster.start_timeout = 200ms;
  wire::Context context;
  RunningServer other(config, ShardId(1), context);
  CHECK_THAT(other.result().message(), Contains(config.cluster.endpoints[0]) && Contains("not answered"));
}

// The heartbeats of the only node come, so that its lease does not tell; the run ends without it all the
// same.
void require_lost_unread(RunningServer& server, ScriptedNode& node, const testing::TempFolder& folder) {
  auto result = std::async(std::launch::async, [&] { return server.result(); });
  while (result.wait_for(50ms) != std::future_status::ready) node.send(0, wire::Heartbeat{});
  CHECK(result.get().code() == StatusCode::kUnavailable);
  const auto summary = read_summary(folder.path());
  REQUIRE(summary->lost.size() == 1);
  CHECK_THAT(summary->lost[0],
             Contains("node 0: it has taken none of the parameters it asked shard 0 for in 2 s"));
}

RunConfig config_of_small_frames(const testing::TempFolder& folder, Duration lease) {
  RunConfig config = config_in(folder, 1);
  config.cluster.frame_bytes = 4096;
  config.cluster.lease = lease;
  return config;
}

TEST_CASE("a node that asks for parameters and does not read them is lost, and nothing stays queued for it") {
  const testing::TempFolder folder;
  const RunConfig config = config_of_small_frames(folder, 2s);
  wire::Context context;
  RunningServer server(config, ShardId(0), context);
  ScriptedNode node(context, config.cluster.endpoints);
  ask_for_more_than_is_read(node, config);
  require_lost_unread(server, node, folder);
}

// It says for a while that it is alive, so that what waits for it is noticed first: who is cut off is not
// taken for one who is slow.
TEST_CASE("a node that reads nothing, and by then says nothing either, is lost as one that does neither") {
  const testing::TempFolder folder;
  const RunConfig config = config_of_small_frames(folder, 4s);
  wire::Context context;
  RunningServer server(config, ShardId(0), context);
  ScriptedNode node(context, config.cluster.endpoints);
  ask_for_more_than_is_read(node, config);
  auto result = std::async(std::launch::async, [&] { return server.result(); });
  for (int beats = 0; beats < 10; ++beats) {
    node.send(0, wire::Heartbeat{});
    result.wait_for(50ms);
  }
  CHECK(result.get().code() == StatusCode::kUnavailable);
  const auto summary = read_summary(folder.path());
  REQUIRE(summary->lost.size() == 1);
  CHECK_THAT(summary->lost[0],
             Catch::Matches(".*it has taken none of the parameters it asked shard 0 for in 4 s; "
                            R"(silent for [234]\.\d s.*)"));
}

// It has read them, but what it was lent it does not give back.
TEST_CASE("a node that keeps the server's memory is lost, as one that does not read") {
  const testing::TempFolder folder;
  RunConfig config = config_in(folder, 1);
  config.cluster.frame_bytes = 4096;
  config.cluster.lease = 2s;
  config.cluster.shared_memory = SharedMemory::kOn;
  wire::Context context;
  RunningServer server(config, ShardId(0), context);
  ScriptedNode node(context, config.cluster.endpoints, wire::SharedSegment::create(1 << 20).value());
  begin(node, config, 100'000);
  node.send(0, wire::Pull{1, Version(0), false, kNoRevision});
  wire::Payload kept;
  node.receive<wire::Parameters>(0, &kept);
  CHECK(kept.borrowed);
  require_lost_unread(server, node, folder);
}

TEST_CASE(
    "a node that shares in one direction alone is refused where sharing is wanted, else served in frames") {
  const testing::TempFolder folder;
  RunConfig config = config_in(folder, 1);
  config.cluster.frame_bytes = 4096;
  config.cluster.shared_memory = GENERATE(SharedMemory::kOn, SharedMemory::kAuto);
  wire::Context context;
  RunningServer server(config, ShardId(0), context);
  ScriptedNode node(context, config.cluster.endpoints, wire::SharedSegment::create(1 << 20).value(),
                    /*their_bytes_max=*/64);
  if (config.cluster.shared_memory == SharedMemory::kAuto) {
    begin(node, config, 100'000);
    node.send(0, wire::Pull{1, Version(0), false, kNoRevision});
    wire::Payload piece;
    node.receive<wire::Parameters>(0, &piece);
    CHECK_FALSE(piece.borrowed);
    return;
  }
  node.send(0, join_of(config, 0, 100'000));
  node.receive<wire::Welcome>(0);
  node.send(0, wire::Heartbeat{});
  const auto refusal = node.receive<wire::Error>(0);
  CHECK(refusal.fatal);
  CHECK(
      refusal.message ==
      "cluster.shared_memory is on, but node 0 cannot share memory: the peer cannot read the memory of this "
      "process");
  CHECK(server.result().code() == StatusCode::kUnavailable);
}

TEST_CASE("a node whose memory is larger than its gradients need shares none") {
  const testing::TempFolder folder;
  RunConfig config = config_in(folder, 1);
  config.cluster.shared_memory = SharedMemory::kOn;
  wire::Context context;
  RunningServer server(config, ShardId(0), context);
  ScriptedNode node(context, config.cluster.endpoints, wire::SharedSegment::create(1 << 20).value());
  node.send(0, join_of(config, 0, kFloats));
  const auto refusal = node.receive<wire::Error>(0);
  CHECK(refusal.fatal);
  CHECK_THAT(refusal.message, Contains("it has 1048640 bytes, expected at most"));
}

// Why lies after more frames than it has read.
TEST_CASE("a node that is refused for good reads why, though parameters are queued for it") {
  const testing::TempFolder folder;
  RunConfig config = config_in(folder, 1);
  config.cluster.frame_bytes = 4096;
  wire::Context context;
  RunningServer server(config, ShardId(0), context);
  ScriptedNode node(context, config.cluster.endpoints);
  ask_for_more_than_is_read(node, config);
  node.send(0, wire::Push{WorkerId(1, 0), Clock(0), 0, true, 4, Version(0), Revision(0)}, {1});
  const auto refusal = node.receive<wire::Error>(0);
  CHECK(refusal.fatal);
  CHECK_THAT(refusal.message, Contains("in the name of worker 1.0"));
}

// Two nodes; node 1 goes on talking after it was refused for good.
TEST_CASE("a node that is refused for good is lost at once, though it stays and talks") {
  const testing::TempFolder folder;
  RunConfig config = config_in(folder, 2);
  config.cluster.nodes = 2;
  wire::Context context;
  RunningServer authority(config, ShardId(0), context);
  RunningServer other(config, ShardId(1), context);
  ScriptedNode good(context, config.cluster.endpoints);
  ScriptedNode bad(context, config.cluster.endpoints);
  good.send_to_all(join_of(config, 0, kFloats));
  const Range ranges[] = {good.receive<wire::Welcome>(0).range, good.receive<wire::Welcome>(1).range};
  bad.send_to_all(join_of(config, 1, kFloats));
  bad.receive<wire::Welcome>(0);
  bad.receive<wire::Welcome>(1);
  const auto values = [&](std::size_t k) {
    return std::vector<float>(static_cast<std::size_t>(ranges[k].size()), 1.0F);
  };
  for (std::size_t k = 0; k < 2; ++k) good.send(k, wire::InitialParameters{0, true}, values(k));
  good.receive<wire::Grant>(0);
  bad.receive<wire::Grant>(0);

  std::string where;
  std::string what = "push from node 1 in the name of worker 0.0";
  const wire::Push in_anothers_name{WorkerId(0, 0), Clock(0), 0, true, 4, Version(0), Revision(0)};
  SECTION("by the authority") {
    wire::StepReport report;
    report.worker = WorkerId(0, 0);
    report.metric = {1.0, 2, 4};
    bad.send(0, report);
    what = "report from node 1 in the name of worker 0.0";
  }
  SECTION("by the authority's shard") { bad.send(0, in_anothers_name, values(0)); }
  SECTION("by another shard") {
    bad.send(1, in_anothers_name, values(1));
    where = "shard 1: ";
  }
  const auto refusal = bad.receive<wire::Error>(where.empty() ? 0 : 1);
  CHECK(refusal.fatal);
  CHECK_THAT(refusal.message, Contains(what));

  // The other one is waited for no longer, and what it leaves is done by who is there.
  for (std::int64_t clock = 0; clock < 2; ++clock) {
    if (clock > 0) CHECK(good.receive<wire::Grant>(0).iteration == 1);
    for (std::size_t k = 0; k < 2; ++k) {
      good.send(k, wire::Push{WorkerId(0, 0), Clock(clock), 0, true, 4, Version(clock), Revision(clock)},
                values(k));
    }
    good.send(0, report_at(clock));
  }
  CHECK(good.receive<wire::FinishWorker>(0).reason == "share done");
  bad.send(1, wire::Pull{1, Version(0), false, kNoRevision});
  CHECK_THAT(bad.receive<wire::Error>(1).message, Contains("node 1 has gone from this run"));
  const auto evaluate = good.receive<wire::Evaluate>(0);
  good.send(0, wire::EvaluationReport{evaluate.version, {3.0, 9, 10}, ""});
  wire::NodeReport numbers;
  numbers.workers.push_back({WorkerId(0, 0), {}, 2, 0, 0, 0});
  good.send(0, numbers);
  CHECK(good.receive<wire::RunOver>(0).code == StatusCode::kOk);
  CHECK(authority.result().is_ok());
  const auto summary = read_summary(folder.path());
  CHECK(summary->iterations == 2);
  REQUIRE(summary->lost.size() == 1);
  CHECK(summary->lost[0] == "node 1: " + where + "refused: " + what);
}

TEST_CASE("a run directory that holds a run is refused, and cleared when it may be") {
  const testing::TempFolder folder;
  const RunConfig config = config_in(folder, 2);
  REQUIRE(prepare_run_directory(config, kAuthority, Existing::kRefuse, "given.yaml").is_ok());
  CHECK(load_config(folder / "config.yaml", {}).is_ok());
  REQUIRE(write_summary(folder.path(), RunSummary{}).is_ok());
  const Status refused = prepare_run_directory(config, kAuthority, Existing::kRefuse, "given.yaml");
  CHECK(refused.code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(refused.message(), Contains("has ended well (summary.json)") && Contains("--force --force"));
  CHECK(prepare_run_directory(config, ShardId(1), Existing::kRefuse, "given.yaml").is_ok());
  // It has ended well: --force once is a habit, twice is meant.
  const Status kept = prepare_run_directory(config, kAuthority, Existing::kReplace, "given.yaml");
  CHECK(kept.code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(kept.message(), Contains("has ended well") && Contains("--force --force"));
  CHECK(std::filesystem::exists(folder / "summary.json"));
  RunSummary stopped;
  stopped.status = "stopped";
  stopped.final_version = Version(1);
  REQUIRE(write_summary(folder.path(), stopped).is_ok());
  CHECK_FALSE(check_unused(config, kAuthority).is_ok());
  CHECK(prepare_run_directory(config, kAuthority, Existing::kReplace, "given.yaml").is_ok());
  // Of one that has trained nothing nothing is to be kept, but what it went on from.
  stopped.final_version = Version(0);
  REQUIRE(write_summary(folder.path(), stopped).is_ok());
  std::ofstream(folder / "server.log") << "it was";
  CHECK(check_unused(config, kAuthority).is_ok());
  std::ofstream(folder / "model.bin") << "what it began with";
  CHECK(check_unused(config, kAuthority).is_ok());
  RunConfig warm = config;  // its model had learned before the first version
  warm.train.has_inner_optimizer = true;
  warm.train.warm_start_steps = 5;
  std::ofstream(folder / "config.yaml") << to_yaml(warm);
  REQUIRE(load_config(folder / "config.yaml", {}, LoadFor::kReading).is_ok());
  CHECK_FALSE(check_unused(config, kAuthority).is_ok());
  std::ofstream(folder / "config.yaml") << to_yaml(config);
  std::filesystem::create_directory(folder / "checkpoint");
  CHECK_FALSE(check_unused(config, kAuthority).is_ok());
  std::filesystem::remove(folder / "checkpoint");
  stopped.iterations = 1;
  REQUIRE(write_summary(folder.path(), stopped).is_ok());
  CHECK_FALSE(check_unused(config, kAuthority).is_ok());
  REQUIRE(write_summary(folder.path(), RunSummary{}).is_ok());
  REQUIRE(prepare_run_directory(config, kAuthority, Existing::kReplaceFinished, "given.yaml").is_ok());
  CHECK_FALSE(std::filesystem::exists(folder / "summary.json"));
}

TEST_CASE("a run that never listened leaves a folder that may be used, and what was not its own") {
  const testing::TempFolder folder;
  RunConfig config = config_in(folder, 2);
  config.run.out = (folder / "run").string();
  const std::filesystem::path out(config.run.out);
  const auto start = [&](ShardId shard, const std::filesystem::path& given) {
    REQUIRE(prepare_run_directory(config, shard, Existing::kRefuse, given).is_ok());
    std::ofstream(log_file(config, shard)) << "it begins";
  };
  // It may be a link to another disk, and another daemon may be about to open its log there.
  std::filesystem::create_directory(folder / "disk");
  std::filesystem::create_directory_symlink(folder / "disk", out);
  start(kAuthority, "given.yaml");
  forget_run(config, kAuthority, "given.yaml");
  CHECK((std::filesystem::is_symlink(out) && std::filesystem::is_empty(out)));

  std::ofstream(out / "notes.txt") << "mine";
  std::ofstream(out / "config.yaml") << to_yaml(config);
  start(kAuthority, out / "config.yaml");
  start(ShardId(1), out / "config.yaml");
  forget_run(config, kAuthority, out / "config.yaml");
  CHECK(std::filesystem::exists(out / "notes.txt"));
  CHECK(std::filesystem::exists(out / "config.yaml"));
  CHECK(std::filesystem::exists(log_file(config, ShardId(1))));
  CHECK(prepare_run_directory(config, kAuthority, Existing::kRefuse, out / "config.yaml").is_ok());
}

TEST_CASE("of an earlier run's logs those stay that the new run's daemons write") {
  const testing::TempFolder folder;
  RunConfig config = config_in(folder, 2);
  config.cluster.nodes = 2;
  for (const char* name : {"worker-1.log", "worker-2.log", "worker-x.log", "server-1.log", "server-2.log"}) {
    std::ofstream(folder / name) << "a line";
  }
  REQUIRE(prepare_run_directory(config, kAuthority, Existing::kReplace, "given.yaml").is_ok());
  std::set<std::string> left;
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    left.insert(file.path().filename().string());
  }
  CHECK(left == std::set<std::string>{"config.yaml", "server-1.log", "worker-1.log", "worker-x.log"});
}

TEST_CASE("the recorded configuration finds its data and its keys from anywhere") {
  const testing::TempFolder folder;
  RunConfig config = config_in(folder, 2);
  config.data.path = "some/data";
  config.security.keys = "some/keys";
  REQUIRE(prepare_run_directory(config, kAuthority, Existing::kRefuse, "given.yaml").is_ok());
  const auto recorded = load_config(folder / "config.yaml", {});
  REQUIRE(recorded.is_ok());
  CHECK(recorded->data.path == (std::filesystem::current_path() / "some/data").string());
  CHECK(recorded->security.keys == (std::filesystem::current_path() / "some/keys").string());
}

}  // namespace
}  // namespace paceline::server
