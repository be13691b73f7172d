// A server and a node whose connection breaks, over real sockets: who is taken back over another one.
#include <catch2/catch.hpp>

#include "common/report/run_summary.h"
#include "tests/process/scripted_node.h"
#include "tests/unit/temp_folder.h"

namespace paceline::server {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;

constexpr std::int64_t kFiveFloats = 5;

// One node with one thread, two iterations; SGD with rate 1. The node is there, and training has begun.
struct BrokenRun {
  BrokenRun() {
    config.run.out = folder.path();
    config.cluster.endpoints = {"ipc://" + (folder / "s0").string()};
    config.cluster.heartbeat = 50ms;
    config.cluster.frame_bytes = 8;
    config.train.total_iterations = 2;
    config.train.optimizer.lr = 1.0;
    server.emplace(config, ShardId(0), context);
    REQUIRE(server->started().is_ok());
    before.emplace(context, config.cluster.endpoints);
    before->send(0, join_of(config, 0, kFiveFloats));
    before->receive<wire::Welcome>(0);
    before->send(0, wire::InitialParameters{0, true}, std::vector<float>(5, 10));
    CHECK(before->receive<wire::Grant>(0).clock == Clock(0));
    after.emplace(context, config.cluster.endpoints);
  }
  wire::Join reconnect(std::uint64_t goes_on = 1) const {
    wire::Join join = join_of(config, 0, kFiveFloats);
    join.goes_on = goes_on;
    join.connection = 3;
    return join;
  }
  // From `clock` on, heard by `node`; `strange`: what strangers had refused.
  void finish(ScriptedNode& node, std::int64_t clock, std::int64_t strange = 0) {
    for (; clock < 2; ++clock) iterate(node, clock);
    CHECK(node.receive<wire::FinishWorker>(0).reason == "share done");
    const auto evaluate = node.receive<wire::Evaluate>(0);
    CHECK(after_clock(node, 1) == 8.0F);
    node.send(0, wire::EvaluationReport{evaluate.version, {3.0, 9, 10}, ""});
    wire::NodeReport report;
    report.workers.push_back({WorkerId(0, 0), {}, 2, 0, 0});
    node.send(0, report);
    CHECK(node.receive<wire::RunOver>(0).code == StatusCode::kOk);
    CHECK(server->result().is_ok());
    const auto summary = read_summary(folder.path());
    REQUIRE(summary.is_ok());
    CHECK((summary->reconnects == 1 && summary->iterations == 2 && summary->malformed == strange));
  }
  static wire::Push push_at(std::int64_t clock) {
    return {WorkerId(0, 0), Clock(clock), 0, true, 4, Version(clock), Revision(clock)};
  }
  // The iteration, given twice over.
  static void iterate(ScriptedNode& node, std::int64_t clock) {
    for (int times = 0; times < 2; ++times) {
      node.send(0, push_at(clock), std::vector<float>(5, 1));
      node.send(0, report_at(clock));
    }
  }
  // What the parameters are after it; all else that was said before is passed over.
  static float after_clock(ScriptedNode& node, std::int64_t clock) {
    node.send(0, wire::Pull{9, Version(clock + 1), false, kNoRevision});
    wire::Payload payload;
    node.receive<wire::Parameters>(0, &payload);
    return payload.floats()[0];
  }

  testing::TempFolder folder;
  RunConfig config;
  wire::Context context;
  std::optional<RunningServer> server;
  std::optional<ScriptedNode> before;
  std::optional<ScriptedNode> after;
};

TEST_CASE("the process that is here goes on over another connection, and what it says again counts once") {
  BrokenRun run;
  run.before->send(0, BrokenRun::push_at(0), std::vector<float>(5, 1));
  run.before->send(0, report_at(0));
  CHECK(run.before->receive<wire::Grant>(0).clock == Clock(1));
  run.after->send(0, run.reconnect());
  const auto welcome = run.after->receive<wire::Welcome>(0);
  CHECK((welcome.initialized && welcome.under_way && welcome.generation == 1));
  CHECK(run.after->receive<wire::Grant>(0).clock == Clock(1));  // it may not have heard it
  run.iterate(*run.after, 0);
  CHECK(run.after->receive<wire::Grant>(0).clock == Clock(1));  // and is answered again
  CHECK(run.after_clock(*run.after, 0) == 9.0F);
  run.finish(*run.after, 1);
}

TEST_CASE("a join that is read after that of a later connection moves the node nowhere") {
  BrokenRun run;
  run.after->send(0, run.reconnect());
  run.after->receive<wire::Welcome>(0);
  ScriptedNode late(run.context, run.config.cluster.endpoints);
  wire::Join join = run.reconnect();
  join.connection = 2;
  late.send(0, join);
  late.send(0, wire::Leave{"it would end the run"});
  // A stranger after it is answered, so the late one has been read.
  ScriptedNode stranger(run.context, run.config.cluster.endpoints);
  stranger.send(0, wire::Heartbeat{});
  stranger.receive<wire::Error>(0);
  run.finish(*run.after, 0, 1);
}

TEST_CASE("what is said over a connection that was given up counts for nothing") {
  BrokenRun run;
  run.after->send(0, run.reconnect());
  run.after->receive<wire::Welcome>(0);
  run.before->send(0, BrokenRun::push_at(0), std::vector<float>(5, 1));
  run.before->send(0, wire::Leave{"it would end the run"});
  run.finish(*run.after, 0);
}

TEST_CASE("a process whose welcome was lost says no more than its join again") {
  BrokenRun run;
  run.after->send(0, run.reconnect(0));
  run.after->receive<wire::Welcome>(0);
  CHECK(run.after->receive<wire::Grant>(0).clock == Clock(0));
}

TEST_CASE("nobody goes on who is another process, of another generation, or has gone") {
  BrokenRun run;
  const auto refused = [&](const wire::Join& join) {
    ScriptedNode stranger(run.context, run.config.cluster.endpoints);
    stranger.send(0, join);
    const auto error = stranger.receive<wire::Error>(0);
    return error.fatal && error.code == StatusCode::kFailedPrecondition ? error.message : "";
  };
  wire::Join other = run.reconnect();
  other.incarnation += 1;
  CHECK(refused(other) == "node 0 has gone from this run");
  CHECK(refused(run.reconnect(2)) == "node 0 has gone from this run");
  wire::Join has_been_here = run.reconnect(0);
  has_been_here.last_generation = 1;  // and has left it
  CHECK_THAT(refused(has_been_here), Contains("already taken"));
}

// What the authority says to shard 1 over a connection that breaks, and over the next one.
TEST_CASE("another shard goes on over another connection: each end says again what the other has not heard") {
  testing::TempFolder folder;
  RunConfig config;
  config.run.out = folder.path();
  config.cluster.shards = 2;
  config.cluster.endpoints = {"ipc://" + (folder / "s0").string(), "ipc://" + (folder / "s1").string()};
  config.cluster.heartbeat = 50ms;
  config.train.total_iterations = 2;
  wire::Context context;
  RunningServer authority(config, ShardId(0), context);
  REQUIRE(authority.started().is_ok());
  const std::vector<std::string> there = {config.cluster.endpoints[0]};
  wire::ShardJoin join{.shard = ShardId(1), .config_fingerprint = fingerprint(config), .incarnation = 5};

  ScriptedNode before(context, there);
  before.send(0, join);
  CHECK(before.receive<wire::ShardWelcome>(0).acked == 0);
  ScriptedNode node(context, there);
  const wire::Join of_node = join_of(config, 0, kFiveFloats);
  node.send(0, of_node);
  node.receive<wire::Welcome>(0);
  CHECK(before.receive<wire::NodeAdmitted>(0).node == NodeId(0));
  before.send(0, wire::ShardReady{ShardId(1), of_node.layout_hash});
  // It is heard of, with the next heartbeat.
  std::int64_t received = 0;
  for (int beats = 0; received == 0 && beats < 100; ++beats)
    received = before.receive<wire::Heartbeat>(0).acked;
  REQUIRE(received == 1);

  ScriptedNode after(context, there);
  join.goes_on = 1;
  join.connection = 2;
  SECTION("which has heard nothing") {
    after.send(0, join);
    CHECK(after.receive<wire::ShardWelcome>(0).acked == 1);
    CHECK(after.receive<wire::NodeAdmitted>(0).node == NodeId(0));
  }
  SECTION("which has heard what was said") {
    join.acked = 1;
    after.send(0, join);
    CHECK(after.receive<wire::ShardWelcome>(0).acked == 1);
    after.send(0, wire::NodeLost{NodeId(0), "by the test", 1000});
    CHECK(after.receive_name(0) == "RunOver");  // no word of the node before
  }
  SECTION("not another process of it, nor in another generation, nor with words that were not said") {
    join.acked = 2;
    std::string expected = "expected 0 to 1";
    if (GENERATE(true, false)) {
      join.incarnation = 6;
      expected = "shard 1 has gone from this run";
    }
    after.send(0, join);
    CHECK_THAT(after.receive<wire::Error>(0).message, Contains(expected));
  }
}

// What another process that asks to be node 0 is told, by the run as it then is.
wire::Error ask_to_be_node_0(BrokenRun& run, std::uint64_t incarnation) {
  ScriptedNode joiner(run.context, run.config.cluster.endpoints);
  wire::Join join = join_of(run.config, 0, kFiveFloats);
  join.incarnation = incarnation;
  joiner.send(0, join);
  return joiner.receive<wire::Error>(0);
}

TEST_CASE(
    "a process is taken for alive for its answer, not for words of it that may have been on their way") {
  BrokenRun run;
  constexpr std::uint64_t kJoiner = 2000;
  constexpr int kTimes = 2000;
  int questions = 0;
  for (int times = 0; questions < 5 && times < kTimes; ++times) {
    run.before->send(0, wire::Heartbeat{.answer = kJoiner - 1});
    const wire::Error error = ask_to_be_node_0(run, kJoiner);
    CHECK((error.code == StatusCode::kUnavailable && !error.fatal));
    while (const auto beat = run.before->receive_within<wire::Heartbeat>(0, 1ms)) {
      if (beat->answer == kJoiner) ++questions;
    }
  }
  REQUIRE(questions >= 5);

  run.before->send(0, wire::Heartbeat{.answer = kJoiner});
  std::string refused;
  for (int times = 0; refused.empty() && times < kTimes; ++times) {
    const wire::Error error = ask_to_be_node_0(run, kJoiner);
    if (error.fatal) refused = error.message;
  }
  CHECK_THAT(refused, Contains("node 0: already taken by another process of this run, which is alive"));
  CHECK_FALSE(ask_to_be_node_0(run, kJoiner + 1).fatal);  // that was no answer to this one
}

// Three nodes of one thread, four iterations, bsp: node 0 has the last, and waits for both others before it.
TEST_CASE(
    "whose connection broke and who does not come back is lost, but not who is done: it hears the end") {
  testing::TempFolder folder;
  RunConfig config;
  config.run.out = folder.path();
  config.cluster.endpoints = {"ipc://" + (folder / "s0").string()};
  config.cluster.nodes = 3;
  config.cluster.heartbeat = 50ms;
  config.train.total_iterations = 4;
  wire::Context context;
  RunningServer server(config, ShardId(0), context);
  REQUIRE(server.started().is_ok());
  std::vector<std::unique_ptr<ScriptedNode>> nodes;
  for (std::uint32_t i = 0; i < 3; ++i) {
    nodes.push_back(std::make_unique<ScriptedNode>(context, config.cluster.endpoints));
    nodes[i]->send(0, join_of(config, i, kFiveFloats));
    nodes[i]->receive<wire::Welcome>(0);
  }
  nodes[0]->send(0, wire::InitialParameters{0, true}, std::vector<float>(5, 10));
  const auto iterate = [&](std::uint32_t i, std::int64_t clock) {
    wire::Push push = BrokenRun::push_at(clock);
    wire::StepReport report = report_at(clock);
    push.worker = report.worker = WorkerId(i, 0);
    nodes[i]->send(0, push, std::vector<float>(5, 1));
    nodes[i]->send(0, report);
  };
  const auto is_done = [&](std::uint32_t i) {
    wire::NodeReport report{.node = NodeId(i)};
    report.workers.push_back({WorkerId(i, 0), {}, 1, 0, 0});
    nodes[i]->send(0, report);
  };
  for (const auto& node : nodes) node->receive<wire::Grant>(0);
  iterate(0, 0);
  iterate(1, 0);
  nodes[1]->receive<wire::FinishWorker>(0);
  is_done(1);
  nodes[1].reset();
  nodes[2].reset();
  CHECK(nodes[0]->receive<wire::Grant>(0).clock == Clock(1));  // node 2 is lost

  nodes[1] = std::make_unique<ScriptedNode>(context, config.cluster.endpoints);
  wire::Join join = join_of(config, 1, kFiveFloats);
  join.goes_on = 1;
  join.connection = 3;
  nodes[1]->send(0, join);
  nodes[1]->receive<wire::Welcome>(0);
  iterate(0, 1);
  CHECK(nodes[0]->receive<wire::Grant>(0).clock == Clock(2));  // the lost one's
  iterate(0, 2);
  const auto evaluate = nodes[0]->receive<wire::Evaluate>(0);
  nodes[0]->send(0, wire::EvaluationReport{evaluate.version, {3.0, 9, 10}, ""});
  is_done(0);
  CHECK(nodes[1]->receive<wire::RunOver>(0).code == StatusCode::kOk);
  CHECK(server.result().is_ok());
  CHECK(read_summary(folder.path())->lost == std::vector<std::string>{"node 2: its connection broke"});
}

}  // namespace
}  // namespace paceline::server
