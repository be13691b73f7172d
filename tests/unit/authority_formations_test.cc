// What the authority does where nodes that sum gradients among themselves lose one.
#include "common/trace/trace_file.h"
#include "tests/unit/reducing_fixture.h"

namespace paceline::server {
namespace {

TEST_CASE("a node that goes since another one has gone says which, and that one is lost") {
  Reducing run;
  run.reached_at("10.0.0.1:7", "10.0.0.2:7");
  run.shard_has(0);
  run.send(kNode0, wire::Leave{"node 1 (10.0.0.2:7) closed its connection", NodeId(1)});
  CHECK(run.authority->result().message() ==
        "node 1 lost: node 1 (10.0.0.2:7) closed its connection, says node 0 (exchange.kind: allreduce "
        "needs every node until its first step)");
  CHECK(run.summary().lost.front().rfind("node 1: ", 0) == 0);
  CHECK(run.sent.of<wire::RunOver>(kNode0).size() == 1);  // for which its connections to the others stand
}

// After their first step, reached at ports 7.
struct Stepped : Reducing {
  explicit Stepped(RunConfig c = reducing_run()) : Reducing(std::move(c)) {
    reached_at("10.0.0.1:7", "10.0.0.2:7");
    shard_has(0);
    step(0);
    sent.clear();
  }
  // Node 1 is lost; node 0, which has that version, has seen it go.
  void seen_by_node_0(std::int64_t version) {
    wire::Peers reported;
    reported.endpoints = {"10.0.0.1:9"};
    reported.formation = 1;
    reported.version = Version(version);
    reported.lost = NodeId(1);
    reported.why = "node 1 (10.0.0.2:7) closed its connection";
    send(kNode0, reported);
    authority->lost(kNode1, "its connection broke", now);
  }
  void node_0_steps(std::int64_t clock) { steps(0, clock); }
};

TEST_CASE("those that are left when a node is lost are told of each other, and where they go on") {
  Stepped run;
  run.seen_by_node_0(1);
  const auto received = run.sent.of<wire::Peers>(kNode0);
  REQUIRE(received.size() == 2);
  CHECK((received[0].endpoints.empty() && received[0].formation == 1));
  CHECK(received[0].why == "node 1 (10.0.0.2:7) closed its connection, says node 0");
  CHECK(received[1].endpoints == std::vector<std::string>{"10.0.0.1:9", ""});
  CHECK((received[1].formation == 2 && received[1].version == Version(1) && !received[1].holder &&
         received[1].token == 71));
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
  run.steps(1, 1);
  run.seen_by_node_0(2);
  run.node_0_steps(1);
  CHECK(run.sent.of<wire::ApplyDecision>(kShard0).back().revision_after == Revision(4));
}

TEST_CASE("what a node cannot have seen of a formation is refused") {
  Stepped run;
  wire::Peers reported;
  reported.endpoints = {"10.0.0.1:9"};
  reported.formation = 1;
  reported.version = Version(1);
  reported.lost = NodeId(GENERATE(0, 4000));  // itself, and none of the run's
  CHECK(run.refused(kNode0, reported).code() == StatusCode::kInvalidArgument);
  reported.lost = NodeId(1);
  reported.version = Version(GENERATE(0, 3));
  CHECK(run.refused(kNode0, reported).code() == StatusCode::kInvalidArgument);
  CHECK(run.sent.of<wire::Peers>(kNode0).empty());
}

TEST_CASE("a node whose connection broke hears again which nodes are connected, and that they part") {
  Stepped run;
  run.authority->node_reconnected(NodeId(1));
  REQUIRE(run.sent.of<wire::Peers>(kNode1).size() == 1);
  CHECK(run.sent.of<wire::Peers>(kNode1)[0].endpoints.size() == 2);
  run.send(kNode0, wire::Peers{0, {"10.0.0.1:7"}});  // as at the start
  CHECK(run.sent.of<wire::Peers>(kNode0).size() == 1);
}

TEST_CASE("who has made a step of an all-reduce hears whom it waits for") {
  Stepped run;
  run.node_0_steps(1);
  run.pass(std::chrono::milliseconds(200));
  const auto held = run.sent.of<wire::HeldNotice>(kNode0);
  REQUIRE(held.size() == 1);
  CHECK(
      (held[0].worker == WorkerId(0, 0) && held[0].waits_for == WorkerId(1, 0) && held[0].clock == Clock(2)));
}

// A report of a step that nobody who is left has, and that is made anew.
TEST_CASE("a lost node's report of a sum that is gone with it does not count") {
  Stepped run;
  run.steps(1, 1);
  run.seen_by_node_0(1);
  run.node_0_steps(1);
  CHECK(run.sent.of<wire::ApplyDecision>(kShard0).back().revision_after == Revision(3));
}

TEST_CASE("who has the newest version gives it to those that are left and are behind") {
  Formations formations(3);
  const std::vector<NodeId> all = {NodeId(0), NodeId(1), NodeId(2)};
  const std::vector<NodeId> left = {NodeId(1), NodeId(2)};
  for (const NodeId node : all) formations.set_endpoint(node, "x:" + to_string(node), Version(0));
  CHECK(formations.next(all, Version(5))->version == Version(5));  // the first: what the server has
  formations.stepped(all);
  formations.end();
  formations.set_endpoint(NodeId(1), "y:1", Version(6));
  CHECK_FALSE(formations.next(left, Version(6)));
  formations.set_endpoint(NodeId(2), "y:2", Version(7));
  auto next = formations.next(left, Version(6));
  REQUIRE(next);
  CHECK((next->number == 2 && next->version == Version(7) && next->holder == NodeId(2)));
  CHECK(next->endpoints == std::vector<std::string>{"", "y:1", "y:2"});
  CHECK(formations.is_in_sum(NodeId(0)));
  formations.end();  // node 2 goes before node 1 has it: that sum is gone
  formations.set_endpoint(NodeId(1), "z:1", Version(6));
  next = formations.next({NodeId(1)}, Version(6));
  REQUIRE(next);
  CHECK((next->version == Version(6) && !next->holder));
  CHECK_FALSE(formations.is_in_sum(NodeId(0)));
  CHECK_FALSE(formations.is_in_sum(NodeId(2)));
}

// It has left the formation because of another, or reaches the one that says so no more.
TEST_CASE("a node whose connection to another has ended is not lost for that") {
  Stepped run;
  wire::Peers reported;
  reported.endpoints = {"10.0.0.1:9"};
  reported.formation = 1;
  reported.version = Version(1);
  reported.lost = NodeId(1);
  run.send(kNode0, reported);
  reported.endpoints = {"10.0.0.2:9"};
  reported.lost = NodeId(0);
  run.send(kNode1, reported);
  for (const Peer node : {kNode0, kNode1}) {
    CHECK(run.sent.of<wire::Peers>(node).back().endpoints ==
          std::vector<std::string>{"10.0.0.1:9", "10.0.0.2:9"});
  }
}

// They reach the server, and not each other: after each of three tries.
TEST_CASE("nodes that meet anew again and again and make no step end the run, which says why") {
  Stepped run;
  for (std::uint32_t formation = 1; !run.over() && formation < 8; ++formation) {
    wire::Peers reported;
    reported.endpoints = {"10.0.0.1:9"};
    reported.formation = formation;
    reported.version = Version(1);
    reported.why = "cannot reach node 1 (10.0.0.2:9): no answer within 10000 ms";
    run.send(kNode0, reported);
    if (run.over()) break;
    reported.endpoints = {"10.0.0.2:9"};
    reported.why = "it is told so";
    run.send(kNode1, reported);
  }
  REQUIRE(run.authority->result().message() ==
          "3 times one after another the same nodes have met anew, and made no step; at last: cannot "
          "reach "
          "node 1 (10.0.0.2:9): no answer within 10000 ms, says node 0");
}

TEST_CASE("where each node steps a part, each is asked for its state") {
  RunConfig config = reducing_run();
  config.exchange.shard_optimizer = true;
  config.checkpoint.every_clocks = 2;
  ReducingFromStart run(config);
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
  run.authority->node_reconnected(NodeId(0));  // which may have missed it
  const auto received = run.sent.of<wire::Peers>(kNode0);
  REQUIRE(received.size() == 3);  // between the two the formation that is over
  for (const std::size_t i : {0U, 2U})
    CHECK((received[i].endpoints.empty() && received[i].why == "node 1 lost: silent"));
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
  run.send(kNode0, wire::Leave{"node 1 (10.0.0.2:7) closed its connection", NodeId(1)});
  CHECK_THAT(run.authority->result().message(), Contains("node 1 lost: "));
  Reducing before;
  before.reached_at("10.0.0.1:7", "10.0.0.2:7");
  before.shard_has(0);
  wire::Peers reported;
  reported.endpoints = {"10.0.0.1:9"};
  reported.formation = 1;
  reported.lost = NodeId(1);
  reported.why = "it closed its connection";
  before.send(kNode0, reported);
  CHECK_THAT(before.authority->result().message(), Contains("node 1 lost: it closed its connection"));
}

TEST_CASE("the last parameters come from the lowest node that is left") {
  Stepped run;
  for (std::int64_t clock = 1; clock < 3; ++clock) run.step(clock);
  run.authority->lost(kNode0, "silent", run.now);
  CHECK(run.sent.of<wire::StateWanted>(kNode1).back().version == Version(3));
  CHECK(run.authority->result().is_ok());
  // Its report is in, but it is waited for, and asked again over its next connection.
  run.node_reports(1);
  CHECK_FALSE(run.authority->is_done(NodeId(1)));
  run.sent.clear();
  run.authority->node_reconnected(NodeId(1));
  CHECK(run.sent.of<wire::StateWanted>(kNode1).size() == 1);
  run.shard_has(3);
  run.authority->node_reconnected(NodeId(1));
  CHECK(run.sent.of<wire::StateWanted>(kNode1).size() == 1);
}

// Its report was in, so it counts no more, but what was asked of it does.
TEST_CASE("where the node that is asked for the last parameters is lost, too, the next one is") {
  RunConfig config = reducing_run();
  config.cluster.nodes = 3;
  config.train.total_iterations = 9;
  Stepped run(config);
  for (std::int64_t clock = 1; clock < 3; ++clock) run.step(clock);
  run.authority->lost(kNode0, "silent", run.now);
  run.node_reports(1);
  run.node_reports(2);
  const Peer node_2 = Peer::of(NodeId(2));
  CHECK(run.sent.of<wire::StateWanted>(node_2).empty());
  run.authority->lost(kNode1, "silent", run.now);
  REQUIRE(run.sent.of<wire::StateWanted>(node_2).size() == 1);
  CHECK(run.sent.of<wire::StateWanted>(node_2)[0].version == Version(3));
  CHECK(run.authority->result().is_ok());
  run.authority->lost(node_2, "silent", run.now);
  CHECK_THAT(run.authority->result().message(), Contains("node 2 lost: silent"));
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

// Of whom node 2 is lost.
struct OfThree : Reducing {
  explicit OfThree(std::int64_t iterations, OnNan on_nan = OnNan::kStop)
      : Reducing([&] {
          RunConfig of_three = reducing_run();
          of_three.cluster.nodes = 3;
          of_three.train.total_iterations = iterations;
          of_three.train.on_nan = on_nan;
          return of_three;
        }()) {
    reached_at("10.0.0.1:7", "10.0.0.2:7");
    send(Peer::of(NodeId(2)), wire::Peers{0, {"10.0.0.3:7"}});
    shard_has(0);
  }
  // Those that are left meet again, and have these versions.
  void node_2_goes(std::int64_t of_node_0, std::int64_t of_node_1) {
    authority->lost(Peer::of(NodeId(2)), "silent", now);
    for (const std::uint32_t node : {0U, 1U}) {
      wire::Peers reported;
      reported.endpoints = {"10.0.0.1:" + std::to_string(8 + node)};
      reported.formation = 1;
      reported.version = Version(node == 0 ? of_node_0 : of_node_1);
      send(Peer::of(NodeId(node)), reported);
    }
  }
};

// Of six iterations three are done by three nodes, two by two, and one is left for two.
TEST_CASE("a step that is not for all workers any more is not made") {
  OfThree run(6);
  for (const std::uint32_t node : {0U, 1U, 2U}) run.steps(node, 0);
  run.node_2_goes(1, 1);
  for (const std::uint32_t node : {0U, 1U}) run.steps(node, 1);
  CHECK_FALSE(run.authority->training());
  CHECK(run.sent.of<wire::FinishWorker>(kNode0).size() == 1);
  CHECK(run.sent.of<wire::ApplyDecision>(kShard0).back().revision_after == Revision(5));
  CHECK(run.authority->result().is_ok());
  run.shard_has(2);
  const auto pull = run.sent.of<wire::Pull>(kShard0).at(0);
  run.send(kShard0, wire::Parameters{pull.request, ShardId(0), Version(2), Revision(5), 0, true, {}},
           std::vector<float>(8, 1.0F));
  run.send(kNode0, wire::EvaluationReport{Version(2), {1.0, 1, 10}, ""});
  for (const std::uint32_t node : {0U, 1U}) run.node_reports(node);
  run.shard_reports(0);
  REQUIRE(run.over());
  const RunSummary summary = run.summary();
  CHECK((summary.status == "ok" && summary.iterations == 5));
  CHECK((summary.iterations_lost == 1 && summary.iterations_undone == 1));
}

// Of nine iterations three are done, three left out, and two more by those that are left: the gradient of the lost one
// was in a sum of which there is no step. Who is given that version reports one.
TEST_CASE(
    "a step that is left out counts for nobody, also where a node is lost and who is left is given it") {
  const auto [by_node_0, by_node_1] =
      GENERATE(table<bool, bool>({{true, true}, {false, true}, {true, false}}));
  CAPTURE(by_node_0, by_node_1);
  OfThree run(9, OnNan::kSkip);
  run.step(0);
  for (const std::uint32_t node : {0U, 1U, 2U}) run.leaves_out(node, 1);
  CHECK(run.authority->training());
  run.node_2_goes(by_node_0 ? 3 : 2, by_node_1 ? 3 : 2);
  by_node_0 ? run.leaves_out(0, 2) : run.steps(0, 2);
  CHECK(run.authority->training());
  by_node_1 ? run.leaves_out(1, 2) : run.steps(1, 2);
  CHECK_FALSE(run.authority->training());
  CHECK(run.sent.of<wire::FinishWorker>(kNode0).size() == 1);
  const wire::ApplyDecision last = run.sent.of<wire::ApplyDecision>(kShard0).back();
  CHECK((last.version_after == Version(3) && last.revision_after == Revision(3)));
}

// No gradient of it was anything but finite, and whoever of them says it first: none goes on.
TEST_CASE("what is lost for all who are left ends the run, which servers may go on with") {
  RunConfig config = reducing_run();
  config.cluster.nodes = 3;
  config.exchange.shard_optimizer = true;
  ReducingFromStart run(config);
  run.step(0);
  run.authority->lost(kNode1, "silent", run.now);
  run.send(kNode0, wire::Error{StatusCode::kDataLoss, "the state of node 1 is lost", true});
  REQUIRE(run.over());
  const Status result = run.authority->result();
  CHECK(result.message() == "the state of node 1 is lost, says node 0");
  CHECK(result.code() == StatusCode::kUnavailable);  // what RunEnd takes for one to go on from a checkpoint
  CHECK(run.sent.of<wire::RunOver>(Peer::of(NodeId(2))).size() == 1);
  const RunSummary summary = run.summary();
  CHECK((summary.status == "failed" && summary.skipped == 0 && summary.lost_nodes == 1));
  Run with_servers;
  with_servers.gather();
  CHECK(with_servers.refused(kNode0, wire::Error{StatusCode::kDataLoss, "it is lost", true}).code() ==
        StatusCode::kInvalidArgument);
}

// One of the two kept the other's part of the optimizer's state.
TEST_CASE(
    "where parts of the last state are lost with two nodes, the run ends once all others have reported") {
  RunConfig config = reducing_run();
  config.cluster.nodes = 4;
  config.train.total_iterations = 8;
  config.exchange.shard_optimizer = true;
  ReducingFromStart run(config);
  run.step(0);
  for (const std::uint32_t node : {0U, 3U}) run.steps(node, 1);
  for (const std::uint32_t node : {1U, 2U}) run.authority->lost(Peer::of(NodeId(node)), "silent", run.now);
  CHECK_FALSE(run.authority->training());
  run.node_reports(0);
  CHECK(run.authority->result().is_ok());
  run.node_reports(3);
  REQUIRE(run.over());
  CHECK(run.authority->result().message() ==
        "the last state is not whole, since a part of it is lost with nodes 1, 2");
  CHECK(run.sent.of<wire::RunOver>(kNode0).size() == 1);
}

TEST_CASE("the trace says when a formation was over, and when the next one stood") {
  RunConfig config = reducing_run();
  config.run.trace = true;
  Stepped run(config);
  run.seen_by_node_0(1);
  run.node_0_steps(1);
  run.authority->fail(unavailable("it is to be over"), run.now);
  REQUIRE(run.over());
  const auto part = trace::read_trace_file(run.folder / trace::kAuthorityPart);
  REQUIRE(part.is_ok());
  std::vector<trace::Decision> rare;
  for (const trace::Decision& d : part->decisions) {
    const bool is_of_loss = d.kind == trace::DecisionKind::kParted ||
                            d.kind == trace::DecisionKind::kFormed || d.kind == trace::DecisionKind::kLost;
    if (is_of_loss) rare.push_back(d);
  }
  REQUIRE(rare.size() == 3);
  CHECK((rare[0].kind == trace::DecisionKind::kParted && !rare[0].node));
  CHECK((rare[1].kind == trace::DecisionKind::kFormed && rare[1].version == Version(1)));
  CHECK((rare[2].kind == trace::DecisionKind::kLost && rare[2].node == NodeId(1)));
}

// They would wait for a formation that never comes.
TEST_CASE("a loss after which all have made the last step sends nobody out of their formation") {
  Stepped run;
  run.step(1);
  run.steps(0, 2);
  run.sent.clear();
  run.authority->lost(kNode1, "silent", run.now);
  CHECK_FALSE(run.authority->training());
  CHECK(run.sent.of<wire::FinishWorker>(kNode0).size() == 1);
  CHECK(run.sent.of<wire::Peers>(kNode0).empty());
  CHECK(run.sent.of<wire::ApplyDecision>(kShard0).back().revision_after == Revision(6));
}

}  // namespace
}  // namespace paceline::server
