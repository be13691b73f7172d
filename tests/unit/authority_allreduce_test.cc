// What the authority does for nodes that sum gradients among themselves.
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

// Two nodes that have joined and say where they are reached.
struct Reducing : Run {
  explicit Reducing(RunConfig c = reducing_run()) : Run(std::move(c)) {
    for (const std::uint32_t node : {0U, 1U})
      authority->node_joined(NodeId(node), layout_of(8), now, 70 + node, kData);
  }
  void reached_at(const std::string& node_0, const std::string& node_1) {
    say(kNode0, wire::Peers{0, {node_0}});
    say(kNode1, wire::Peers{0, {node_1}});
  }
};

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

}  // namespace
}  // namespace paceline::server
