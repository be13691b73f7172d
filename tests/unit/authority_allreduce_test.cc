// What the authority does for nodes that sum gradients among themselves.
#include <functional>

#include "common/config/local_endpoint.h"
#include "tests/unit/authority_fixture.h"

namespace paceline::server {
namespace {

RunConfig reducing_run() {
  RunConfig config = small_run();
  config.cluster.shards = 1;
  config.cluster.endpoints = {"tcp://a:1"};
  config.exchange.kind = ExchangeKind::kAllreduce;
  return config;
}

// Two groups of two stages, of three clocks.
RunConfig reducing_stages() {
  RunConfig config = reducing_run();
  config.cluster.nodes = 4;
  config.pipeline.stages = 2;
  config.exchange.on_loss = OnLoss::kStop;
  config.train.total_iterations = 12;
  return config;
}

// Nodes, two if nothing else is said, that have joined and say where they are reached.
struct Reducing : Run {
  explicit Reducing(RunConfig c = reducing_run()) : Run(std::move(c)), nodes(config.cluster.nodes) {
    for (std::uint32_t node = 0; node < nodes; ++node)
      authority->node_joined(NodeId(node), layout_of(8), now, 70 + node, kData);
  }
  void reached_at(const std::string& node_0, const std::string& node_1) {
    say(kNode0, wire::Peers{0, {node_0}});
    say(kNode1, wire::Peers{0, {node_1}});
  }
  void shard_has(std::int64_t version) {
    say(kShard0, wire::ShardReady{ShardId(0), layout_of(8).hash(), Version(version)});
  }
  // All nodes' reports of that clock, whose gradients are summed.
  void step(std::int64_t clock) {
    for (std::uint32_t node = 0; node < nodes; ++node) {
      wire::StepReport report;
      report.worker = WorkerId(node, 0);
      report.clock = Clock(clock);
      report.computed_version = Version(clock);
      report.metric = {1.0, 5, 10};
      say(Peer::of(NodeId(node)), report);
    }
  }
  // Where the first such message to that node stands among all.
  template <typename Body>
  std::ptrdiff_t place_of(const std::function<bool(const Body&)>& is_it, Peer to = kNode0) const {
    const auto found = std::find_if(sent.entries.begin(), sent.entries.end(), [&](const Sent::Entry& entry) {
      const auto* body = std::get_if<Body>(&entry.message.body);
      return entry.to == to && body != nullptr && is_it(*body);
    });
    REQUIRE(found != sent.entries.end());
    return found - sent.entries.begin();
  }
  std::ptrdiff_t grant_of(std::int64_t clock, Peer to = kNode0) const {
    return place_of<wire::Grant>([clock](const wire::Grant& grant) { return grant.clock == Clock(clock); },
                                 to);
  }
  // Node 0 evaluates the run's last version, which the shard has.
  void model_is_evaluated(Version version) {
    const auto pull = sent.of<wire::Pull>(kShard0).at(0);
    say(kShard0,
        wire::Parameters{pull.request, ShardId(0), version, Revision(version.value * nodes), 0, true, {}},
        std::vector<float>(8, 1.0F));
    say(kNode0, wire::EvaluationReport{version, {1.0, 1, 10}, ""});
  }

  const std::uint32_t nodes;
};

TEST_CASE("a node that goes since another one has gone says which, and that one is lost") {
  Reducing run;
  run.reached_at("10.0.0.1:7", "10.0.0.2:7");
  run.shard_has(0);
  run.say(kNode0, wire::Leave{"node 1 (10.0.0.2:7) closed its connection", NodeId(1)});
  CHECK(run.authority->result().message() ==
        "node 1 lost: node 1 (10.0.0.2:7) closed its connection (so says node 0) (exchange.kind: allreduce "
        "needs "
        "every node)");
  CHECK(run.summary().lost.front().rfind("node 1: ", 0) == 0);
}

TEST_CASE("nodes are told of each other once all have said where they are reached") {
  Reducing run;
  run.say(kNode1, wire::Peers{0, {"10.0.0.2:7"}});
  CHECK(run.sent.of<wire::Peers>(kNode1).empty());
  run.say(kNode0, wire::Peers{0, {"10.0.0.1:7"}});
  for (const Peer node : {kNode0, kNode1}) {
    const auto told = run.sent.of<wire::Peers>(node);
    REQUIRE(told.size() == 1);
    CHECK(told[0].token == 70);
    CHECK(told[0].endpoints == std::vector<std::string>{"10.0.0.1:7", "10.0.0.2:7"});
  }
}

TEST_CASE("in a run with keys the nodes of a formation are told one key, and without none") {
  RunConfig config = reducing_run();
  const bool has_keys = GENERATE(false, true);
  if (has_keys) config.security.keys = "keys";
  Reducing run(config);
  run.reached_at("10.0.0.1:7", "10.0.0.2:7");
  run.shard_has(0);
  run.step(0);
  for (const Peer node : {kNode0, kNode1}) {
    wire::Peers said;
    said.endpoints = {"10.0.0.1:9"};
    said.formation = 1;
    said.version = Version(1);
    run.say(node, said);
  }
  const auto told_0 = run.sent.of<wire::Peers>(kNode0);
  const auto told_1 = run.sent.of<wire::Peers>(kNode1);
  CHECK((told_0.front().key == told_1.front().key && told_0.front().key.has_value() == has_keys));
  REQUIRE((told_0.back().formation == 2 && told_1.back().formation == 2));
  CHECK((told_0.back().key == told_1.back().key && told_0.back().key.has_value() == has_keys));
  CHECK((told_0.back().key == told_0.front().key) == !has_keys);
}

TEST_CASE("nodes of which one is reached on its own machine alone end the run, which says what to do") {
  Reducing run;
  run.reached_at("127.0.0.1:7", "10.0.0.2:7");
  CHECK(run.sent.of<wire::Peers>(kNode1).empty());
  REQUIRE(run.over());
  CHECK(run.authority->result().message() ==
        "node 0 reaches the server over 127.0.0.1:7, where no other machine comes, and node 1 over "
        "10.0.0.2:7; " +
            std::string(kLoopbackAdvice));
  CHECK(run.sent.of<wire::RunOver>(kNode1).size() == 1);
}

TEST_CASE("nodes that all are on one machine reach each other at loopback") {
  Reducing run;
  run.reached_at("127.0.0.1:7", "[::1]:7");
  CHECK(run.sent.of<wire::Peers>(kNode0).size() == 1);
}

// Behind that grant node 0 leaves the version.
TEST_CASE("the state of a version that is saved is asked of node 0 ahead of its next grant") {
  RunConfig config = reducing_run();
  config.checkpoint.every_clocks = 2;
  Reducing run(config);
  run.shard_has(0);
  run.step(0);
  CHECK(run.sent.of<wire::StateWanted>(kNode0).empty());
  run.step(1);
  const auto asked = run.place_of<wire::StateWanted>([](const auto& w) { return w.version == Version(2); });
  CHECK(asked < run.grant_of(2));
  const auto decisions = run.sent.of<wire::ApplyDecision>(kShard0);
  CHECK((decisions.back().save && decisions.back().version_after == Version(2)));
  CHECK(run.sent.of<wire::StateWanted>(kNode1).empty());
}

TEST_CASE("a version that waits for its evaluation is kept by node 0 from before its next grant on") {
  RunConfig config = reducing_run();
  config.train.eval_every_clocks = 1;
  config.train.total_iterations = 20;
  Reducing run(config);
  run.shard_has(0);
  for (std::int64_t clock = 0; clock < 3; ++clock) run.step(clock);
  const auto evaluate = run.sent.of<wire::Evaluate>(kNode0);
  REQUIRE(evaluate.size() == 2);  // the third is skipped
  CHECK((evaluate[0].version == Version(1) && !evaluate[0].later));
  CHECK((evaluate[1].version == Version(2) && evaluate[1].later));
  CHECK(run.place_of<wire::Evaluate>([](const auto& e) { return e.later; }) < run.grant_of(2));
  run.sent.clear();
  run.authority->node_rejoined(NodeId(0));  // which may have missed it
  CHECK(run.place_of<wire::Evaluate>([](const auto& e) { return e.later; }) < run.grant_of(3));
  run.say(kNode0, wire::EvaluationReport{Version(1), {1.0, 1, 10}, ""});
  CHECK_FALSE(run.sent.of<wire::Evaluate>(kNode0).back().later);
}

// Each node of a group has a stage alone.
TEST_CASE(
    "of stages the first group gives its state, and node 0 what it evaluates, ahead of its next grants") {
  RunConfig config = reducing_stages();
  config.checkpoint.every_clocks = 2;
  config.train.eval_every_clocks = 2;
  Reducing run(config);
  run.shard_has(0);
  run.step(0);
  CHECK(run.sent.of<wire::Evaluate>(kNode1).empty());
  run.step(1);
  CHECK(run.sent.of<wire::StateWanted>(kNode0).size() == 1);
  CHECK(run.sent.of<wire::StateWanted>(kNode1).size() == 1);
  for (const std::uint32_t node : {2U, 3U}) {  // the second group
    CHECK(run.sent.of<wire::StateWanted>(Peer::of(NodeId(node))).empty());
    CHECK(run.sent.of<wire::Evaluate>(Peer::of(NodeId(node))).empty());
  }
  const auto kept = run.sent.of<wire::Evaluate>(kNode1);
  REQUIRE(kept.size() == 1);
  CHECK((kept[0].version == Version(2) && kept[0].later));
  const auto any = [](const auto&) { return true; };
  CHECK(run.place_of<wire::Evaluate>(any, kNode1) < run.grant_of(2, kNode1));
  CHECK(run.place_of<wire::StateWanted>(any, kNode1) < run.grant_of(2, kNode1));
  REQUIRE(run.sent.of<wire::Evaluate>(kNode0).size() == 1);
  CHECK_FALSE(run.sent.of<wire::Evaluate>(kNode0)[0].later);
  run.sent.clear();
  run.authority->node_rejoined(NodeId(1));  // which may have missed it
  REQUIRE(run.sent.of<wire::Evaluate>(kNode1).size() == 1);
  CHECK(run.sent.of<wire::Evaluate>(kNode1)[0].later);
}

// The first group sends what is left to be sent; those that sum together have chosen alike.
TEST_CASE(
    "behind the last step nobody needs a second group, and each stage's algorithms are in the summary") {
  Reducing run(reducing_stages());
  run.shard_has(0);
  for (std::int64_t clock = 0; clock < 3; ++clock) run.step(clock);
  run.authority->lost(Peer::of(NodeId(3)), "its connection broke", run.now);
  CHECK_FALSE(run.over());
  run.shard_has(3);
  run.model_is_evaluated(Version(3));
  for (const std::uint32_t node : {2U, 1U, 0U}) {
    wire::NodeReport report;
    report.node = NodeId(node);
    report.workers.push_back({WorkerId(node, 0), {}, 3, 0, 0});
    report.algorithms = {"up to 64 floats: " + std::string(node == 1 ? "tree" : "ring")};
    run.say(Peer::of(NodeId(node)), report);
  }
  run.shard_reports(0);
  REQUIRE(run.over());
  CHECK(run.summary().status == "ok");
  CHECK(run.summary().algorithms ==
        std::vector<std::string>{"stage 0, up to 64 floats: ring", "stage 1, up to 64 floats: tree"});
}

TEST_CASE("behind the last step a node of the first group is needed until its state is here") {
  Reducing run(reducing_stages());
  run.shard_has(0);
  for (std::int64_t clock = 0; clock < 3; ++clock) run.step(clock);
  run.authority->lost(kNode1, "its connection broke", run.now);
  CHECK_THAT(run.authority->result().message(), Catch::Contains("node 1 lost: its connection broke"));
}

// A checkpoint's state that comes as training ends is an older one.
TEST_CASE("the run ends with the parameters of its last version") {
  Reducing run;
  run.shard_has(0);
  for (std::int64_t clock = 0; clock < 3; ++clock) run.step(clock);
  run.shard_has(2);
  CHECK(run.sent.of<wire::Pull>(kShard0).empty());
  run.shard_has(3);
  REQUIRE(run.sent.of<wire::Pull>(kShard0).size() == 1);
  CHECK(run.sent.of<wire::Pull>(kShard0)[0].min_version == Version(3));
}

TEST_CASE("parameters that do not come from any node end the run, which says so") {
  Reducing run;
  run.shard_has(0);
  for (std::int64_t clock = 0; clock < 3; ++clock) run.step(clock);
  for (const std::uint32_t node : {0U, 1U}) run.node_reports(node);
  run.pass(Checkpoints::kLeases * run.config.cluster.lease);
  CHECK(run.authority->result().is_ok());
  run.pass(run.config.cluster.lease);
  CHECK_THAT(run.authority->result().message(),
             Contains("the parameters of version 3 have not come from the nodes within "));
}

TEST_CASE("bytes that nodes report to have sent to each other are in the summary") {
  Reducing run;
  run.shard_has(0);
  for (std::int64_t clock = 0; clock < 3; ++clock) run.step(clock);
  run.shard_has(3);
  run.model_is_evaluated(Version(3));
  for (const std::uint32_t node : {0U, 1U}) {
    wire::NodeReport report;
    report.node = NodeId(node);
    report.workers.push_back({WorkerId(node, 0), {}, 3, 0, 0});
    report.bytes_reduced = 40 + node;
    report.reducing = std::chrono::milliseconds(150);
    if (node == 0) report.algorithms = {"up to 64 floats: ring 1 ms: ring"};
    run.say(Peer::of(NodeId(node)), report);
  }
  run.shard_reports(0);
  REQUIRE(run.over());
  CHECK(run.summary().exchange == "allreduce");
  CHECK(run.summary().bytes_reduced == 81);
  CHECK(run.summary().bus_bytes_per_second == Approx(81 / 0.3));
  CHECK(run.summary().algorithms == std::vector<std::string>{"up to 64 floats: ring 1 ms: ring"});
}

// ---- a node is lost

// Behind their first step, reached at ports 7.
struct Stepped : Reducing {
  explicit Stepped(RunConfig c = reducing_run()) : Reducing(std::move(c)) {
    reached_at("10.0.0.1:7", "10.0.0.2:7");
    shard_has(0);
    step(0);
    sent.clear();
  }
  // Node 1 is lost; node 0, which has that version, has seen it go.
  void seen_by_node_0(std::int64_t version) {
    wire::Peers said;
    said.endpoints = {"10.0.0.1:9"};
    said.formation = 1;
    said.version = Version(version);
    said.lost = NodeId(1);
    said.why = "node 1 (10.0.0.2:7) closed its connection";
    say(kNode0, said);
    authority->lost(kNode1, "its connection broke", now);
  }
  void node_0_steps(std::int64_t clock) {
    wire::StepReport report;
    report.worker = WorkerId(0, 0);
    report.clock = Clock(clock);
    report.computed_version = Version(clock);
    report.metric = {1.0, 5, 10};
    say(kNode0, report);
  }
};

TEST_CASE("those that are left when a node is lost are told of each other, and where they go on") {
  Stepped run;
  run.seen_by_node_0(1);
  const auto told = run.sent.of<wire::Peers>(kNode0);
  REQUIRE(told.size() == 2);
  CHECK((told[0].endpoints.empty() && told[0].formation == 1));
  CHECK(told[1].endpoints == std::vector<std::string>{"10.0.0.1:9", ""});
  CHECK((told[1].formation == 2 && told[1].version == Version(1) && !told[1].holder && told[1].token == 71));
}

// Version 2 is made of one gradient, or was made of two, one by a node that could not say so any more.
TEST_CASE("a lost node's gradient counts if it is in the sum that was made") {
  const bool summed = GENERATE(false, true);
  Stepped run;
  run.seen_by_node_0(summed ? 2 : 1);
  run.node_0_steps(1);
  const auto decisions = run.sent.of<wire::ApplyDecision>(kShard0);
  REQUIRE(!decisions.empty());
  CHECK(decisions.back().version_after == Version(2));
  CHECK(decisions.back().revision_after == Revision(summed ? 4 : 3));
}

TEST_CASE("a lost node's report of a step that others have made counts once, with its samples") {
  Stepped run;
  wire::StepReport report;
  report.worker = WorkerId(1, 0);
  report.clock = Clock(1);
  report.computed_version = Version(1);
  report.metric = {1.0, 5, 10};
  run.say(kNode1, report);
  run.seen_by_node_0(2);
  run.node_0_steps(1);
  CHECK(run.sent.of<wire::ApplyDecision>(kShard0).back().revision_after == Revision(4));
}

TEST_CASE("what a node cannot have seen of a formation is refused") {
  Stepped run;
  wire::Peers said;
  said.endpoints = {"10.0.0.1:9"};
  said.formation = 1;
  said.version = Version(1);
  said.lost = NodeId(GENERATE(0, 4000));  // itself, and none of the run's
  CHECK(run.refused(kNode0, said).code() == StatusCode::kInvalidArgument);
  said.lost = NodeId(1);
  said.version = Version(GENERATE(0, 3));
  CHECK(run.refused(kNode0, said).code() == StatusCode::kInvalidArgument);
  CHECK(run.sent.of<wire::Peers>(kNode0).empty());
}

TEST_CASE("a node whose connection broke hears again which nodes are connected, and that they part") {
  Stepped run;
  run.authority->node_rejoined(NodeId(1));
  REQUIRE(run.sent.of<wire::Peers>(kNode1).size() == 1);
  CHECK(run.sent.of<wire::Peers>(kNode1)[0].endpoints.size() == 2);
  run.say(kNode0, wire::Peers{0, {"10.0.0.1:7"}});  // as at the start
  CHECK(run.sent.of<wire::Peers>(kNode0).size() == 1);
}

TEST_CASE("who has made a step of an all-reduce hears whom it waits for") {
  Stepped run;
  run.node_0_steps(1);
  run.pass(std::chrono::milliseconds(200));
  const auto held = run.sent.of<wire::Held>(kNode0);
  REQUIRE(held.size() == 1);
  CHECK(
      (held[0].worker == WorkerId(0, 0) && held[0].waits_for == WorkerId(1, 0) && held[0].clock == Clock(2)));
}

// A report of a step that nobody who is left has, and that is made anew.
TEST_CASE("a lost node's report of a sum that is gone with it does not count") {
  Stepped run;
  wire::StepReport report;
  report.worker = WorkerId(1, 0);
  report.clock = Clock(1);
  report.computed_version = Version(1);
  report.metric = {1.0, 5, 10};
  run.say(kNode1, report);
  run.seen_by_node_0(1);
  run.node_0_steps(1);
  CHECK(run.sent.of<wire::ApplyDecision>(kShard0).back().revision_after == Revision(3));
}

TEST_CASE("who has the newest version gives it to those that are left and are behind") {
  Formations formations(3);
  const std::vector<NodeId> all = {NodeId(0), NodeId(1), NodeId(2)};
  const std::vector<NodeId> left = {NodeId(1), NodeId(2)};
  for (const NodeId node : all) formations.said(node, "x:" + to_string(node), Version(0));
  CHECK(formations.next(all, Version(5))->version == Version(5));  // the first: what the server has
  formations.stepped(all);
  formations.end();
  formations.said(NodeId(1), "y:1", Version(6));
  CHECK_FALSE(formations.next(left, Version(6)));
  formations.said(NodeId(2), "y:2", Version(7));
  auto next = formations.next(left, Version(6));
  REQUIRE(next);
  CHECK((next->number == 2 && next->version == Version(7) && next->holder == NodeId(2)));
  CHECK(next->endpoints == std::vector<std::string>{"", "y:1", "y:2"});
  CHECK(formations.is_in_sum(NodeId(0)));
  formations.end();  // node 2 goes before node 1 has it: that sum is gone
  formations.said(NodeId(1), "z:1", Version(6));
  next = formations.next({NodeId(1)}, Version(6));
  REQUIRE(next);
  CHECK((next->version == Version(6) && !next->holder));
  CHECK_FALSE(formations.is_in_sum(NodeId(0)));
  CHECK_FALSE(formations.is_in_sum(NodeId(2)));
}

// It has left the formation because of another, or reaches the one that says so no more.
TEST_CASE("a node whose connection to another has ended is not lost for that") {
  Stepped run;
  wire::Peers said;
  said.endpoints = {"10.0.0.1:9"};
  said.formation = 1;
  said.version = Version(1);
  said.lost = NodeId(1);
  run.say(kNode0, said);
  said.endpoints = {"10.0.0.2:9"};
  said.lost = NodeId(0);
  run.say(kNode1, said);
  for (const Peer node : {kNode0, kNode1}) {
    CHECK(run.sent.of<wire::Peers>(node).back().endpoints ==
          std::vector<std::string>{"10.0.0.1:9", "10.0.0.2:9"});
  }
}

// They reach the server, and not each other: after each of three tries.
TEST_CASE("nodes that meet anew again and again and make no step end the run, which says why") {
  Stepped run;
  for (std::uint32_t formation = 1; !run.over() && formation < 8; ++formation) {
    wire::Peers said;
    said.endpoints = {"10.0.0.1:9"};
    said.formation = formation;
    said.version = Version(1);
    said.why = "cannot reach node 1 (10.0.0.2:9): no answer within 10000 ms";
    run.say(kNode0, said);
    if (run.over()) break;
    said.endpoints = {"10.0.0.2:9"};
    said.why = "it is told so";
    run.say(kNode1, said);
  }
  REQUIRE(run.authority->result().message() ==
          "3 times one after another the same nodes have met anew, and made no step; at last: node 0: cannot "
          "reach "
          "node 1 (10.0.0.2:9): no answer within 10000 ms");
}

TEST_CASE("where each node steps a part, each is asked for its state") {
  RunConfig config = reducing_run();
  config.exchange.shard_optimizer = true;
  config.checkpoint.every_clocks = 2;
  Reducing run(config);
  run.shard_has(0);
  for (const std::int64_t clock : {0, 1}) run.step(clock);
  for (const Peer node : {kNode0, kNode1}) {
    const auto asked = run.sent.of<wire::StateWanted>(node);
    REQUIRE(asked.size() == 1);
    CHECK(asked[0].version == Version(2));
  }
}

TEST_CASE("a node that does not say where it is reached is lost") {
  Stepped run;
  run.authority->lost(kNode1, "silent", run.now);
  const auto told = run.sent.of<wire::Peers>(kNode0);
  REQUIRE(told.size() == 1);
  CHECK(told[0].endpoints.empty());
  run.pass(MeshFormations::kLeases * run.config.cluster.lease + 1ms);
  CHECK(run.authority->result().message() == "every node was lost before its share was done");
}

TEST_CASE("nobody comes in the place of a node that an all-reduce has lost") {
  Stepped run;
  run.seen_by_node_0(1);
  CHECK(run.authority->may_come(NodeId(1)).message() ==
        "node 1: training has begun, and with exchange.kind: allreduce nobody comes later");
}

TEST_CASE("with exchange.on_loss: stop, and before the first step, a loss ends the run") {
  RunConfig config = reducing_run();
  config.exchange.on_loss = OnLoss::kStop;
  Stepped run(config);
  run.say(kNode0, wire::Leave{"node 1 (10.0.0.2:7) closed its connection", NodeId(1)});
  CHECK_THAT(run.authority->result().message(), Contains("node 1 lost: "));
  Reducing before;
  before.reached_at("10.0.0.1:7", "10.0.0.2:7");
  before.shard_has(0);
  wire::Peers said;
  said.endpoints = {"10.0.0.1:9"};
  said.formation = 1;
  said.lost = NodeId(1);
  said.why = "it closed its connection";
  before.say(kNode0, said);
  CHECK_THAT(before.authority->result().message(), Contains("node 1 lost: it closed its connection"));
}

TEST_CASE("the last parameters come from the lowest node that is left") {
  Stepped run;
  for (std::int64_t clock = 1; clock < 3; ++clock) run.step(clock);
  run.authority->lost(kNode0, "silent", run.now);
  CHECK(run.sent.of<wire::StateWanted>(kNode1).back().version == Version(3));
  CHECK(run.authority->result().is_ok());
}

// Who keeps it gives its part.
TEST_CASE("where each node has a part of the last parameters, one may be lost before they are there") {
  RunConfig config = reducing_run();
  config.exchange.shard_optimizer = true;
  Stepped run(config);
  for (std::int64_t clock = 1; clock < 3; ++clock) run.step(clock);
  run.authority->lost(kNode0, "silent", run.now);
  CHECK(run.authority->result().message() == "");
}

TEST_CASE("where every node is lost, and with them the parameters, the run ends") {
  Stepped run;
  run.seen_by_node_0(1);
  CHECK(run.authority->result().is_ok());
  run.authority->lost(kNode0, "its training loop has ended", run.now);
  CHECK(run.authority->result().message() == "every node was lost before its share was done");
  run.shard_reports(0);
  REQUIRE(run.over());
  CHECK(run.summary().status == "failed");
}

// Of six iterations three are done by three nodes, two by two, and one is left for two.
TEST_CASE("a step that is not for all workers any more is not made") {
  RunConfig config = reducing_run();
  config.cluster.nodes = 3;
  Reducing run(config);
  const auto steps = [&](std::uint32_t node, std::int64_t clock) {
    wire::StepReport report;
    report.worker = WorkerId(node, 0);
    report.clock = Clock(clock);
    report.computed_version = Version(clock);
    report.metric = {1.0, 5, 10};
    run.say(Peer::of(NodeId(node)), report);
  };
  run.authority->node_joined(NodeId(2), layout_of(8), run.now, 72, kData);
  run.reached_at("10.0.0.1:7", "10.0.0.2:7");
  run.say(Peer::of(NodeId(2)), wire::Peers{0, {"10.0.0.3:7"}});
  run.shard_has(0);
  for (const std::uint32_t node : {0U, 1U, 2U}) steps(node, 0);
  run.authority->lost(Peer::of(NodeId(2)), "silent", run.now);
  for (const std::uint32_t node : {0U, 1U}) {
    wire::Peers said;
    said.endpoints = {"10.0.0.1:" + std::to_string(8 + node)};
    said.formation = 1;
    said.version = Version(1);
    run.say(Peer::of(NodeId(node)), said);
  }
  for (const std::uint32_t node : {0U, 1U}) steps(node, 1);
  CHECK_FALSE(run.authority->training());
  CHECK(run.sent.of<wire::FinishWorker>(kNode0).size() == 1);
  CHECK(run.sent.of<wire::ApplyDecision>(kShard0).back().revision_after == Revision(5));
  CHECK(run.authority->result().is_ok());
}

}  // namespace
}  // namespace paceline::server
