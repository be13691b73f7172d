// What a shard says it waits for. Time, and who was last seen when, are the test's.
#include <catch2/catch.hpp>

#include "server/service/shard_service.h"
#include "tests/unit/outbox_fixture.h"
#include "tests/unit/store_fixture.h"

namespace paceline::server {
namespace {

using namespace std::chrono_literals;
using WaitTexts = std::vector<std::string>;

const Peer kReader = Peer::of(NodeId(0));
const Peer kAsker = Peer::of(NodeId(1));

// Shard `id` of two, with six floats in blocks of four, and two nodes with one thread each.
struct WaitingShard {
  explicit WaitingShard(ShardId id = ShardId(1)) {
    config.cluster.nodes = 2;
    config.cluster.shards = 2;
    config.cluster.frame_bytes = 4 * sizeof(float);
    config.cluster.shared_memory = SharedMemory::kOff;
    service.emplace(id, config, sent, log, [] {});
  }
  void open() { REQUIRE(service->open(layout_of(12)).is_ok()); }
  void initialize(std::int64_t offset = 0, std::size_t floats = 6) {
    send(kReader, wire::InitialParameters{offset, offset + static_cast<std::int64_t>(floats) == 6},
         std::vector<float>(floats, 1.0F));
  }
  void send(Peer from, wire::Body body, std::vector<float> values = {}) {
    REQUIRE(service->handle(from, {std::move(body), payload_of(std::move(values))}).is_ok());
  }
  void push(std::int64_t clock) {
    send(kReader, push_of(WorkerId(0, 0), clock), std::vector<float>(6, 1.0F));
  }
  void decide(std::int64_t clock, bool retain = false) {
    auto decision = decision_of(clock, {{WorkerId(0, 0), Clock(clock), 1}}, clock + 1);
    decision.revision_after = Revision(clock + 1);
    decision.retain = retain;
    send(Peer::of(kAuthority), decision);
  }
  void pull(Peer from, std::int64_t min_version, bool exact = false) {
    send(from, wire::Pull{++requests, Version(min_version), exact, kNoRevision});
  }
  void tick(std::chrono::nanoseconds time) { service->tick(now = now + time); }
  // Nodes were last seen 0.4 s ago, the authority 0.2 s ago.
  WaitTexts waits() const {
    const auto seen = [](Peer peer) {
      return std::optional<std::chrono::nanoseconds>(peer.is_node() ? 400ms : 200ms);
    };
    WaitTexts texts;
    for (const Wait& wait : service->waits(seen, now)) texts.push_back(wait.text);
    return texts;
  }

  RunConfig config;
  Log log;
  Sent sent;  // what is not taken from it has not left
  std::optional<ShardService> service;
  std::uint64_t requests = 0;
  Ticks now{1};
};

TEST_CASE("before it is ready a shard waits for a node, and for what node 0 has not sent") {
  WaitingShard s;
  CHECK(s.waits() == WaitTexts{"shard 1 waits for the first node to join"});
  s.open();
  s.initialize(0, 4);
  CHECK(s.waits() ==
        WaitTexts{"shard 1 waits for its initial parameters: 4 of 6 floats have come from node 0 (last "
                  "seen 0.4 s ago)"});
  s.initialize(4, 2);
  CHECK(s.waits().empty());
}

TEST_CASE("a pull of a version that has not been reached waits for the authority's decision") {
  const std::uint32_t id = GENERATE(0U, 1U);
  WaitingShard s{ShardId(id)};
  s.open();
  s.initialize();
  s.push(0);
  s.decide(0);
  s.pull(kReader, 2);
  s.pull(kAsker, 2);
  if (id == 0) {  // the authority itself has made none, and says why
    CHECK(s.waits().empty());
    return;
  }
  CHECK(s.waits() ==
        WaitTexts{"pulls of node 0 and node 1 wait for version 2: shard 1 is at version 1, and decision "
                  "1 has not come from the authority (last seen 0.2 s ago)"});
  s.push(1);
  s.decide(1);
  CHECK(s.waits().empty());
}

TEST_CASE(
    "a pull that waits for an older state to leave names who reads it, and for how long nothing has left") {
  WaitingShard s;
  s.open();
  s.initialize();
  s.pull(kReader, 0);
  s.push(0);
  s.decide(0);
  s.pull(kAsker, 1);
  const std::string who =
      "the pull of node 1 waits for revision 0 (version 0) to leave: node 0 (last seen 0.4 s ago) "
      "has 2 pieces to read";
  CHECK(s.waits() == WaitTexts{who});
  s.tick(50ms);
  s.now = s.now + 3s;
  CHECK(s.waits() == WaitTexts{who + " and has taken none for 3.0 s"});
  s.sent.clear();
  REQUIRE(s.service->on_replies_sent().is_ok());
  CHECK(s.waits().empty());
}

TEST_CASE("gradients that fill their worker's room wait for a decision") {
  WaitingShard s;
  s.open();
  s.initialize();
  s.push(0);
  CHECK(s.waits().empty());
  s.push(1);
  CHECK(s.waits() ==
        WaitTexts{"gradients of worker 0.0 (clock 1) are whole but not announced: as many as shard 1 "
                  "holds of a worker wait for decision 0, which has not come from the authority (last "
                  "seen 0.2 s ago)"});
  s.decide(0);
  CHECK(s.waits().empty());
}

TEST_CASE("a decision that waits for a released version to leave names who reads it") {
  WaitingShard s;
  s.open();
  s.initialize();
  s.push(0);
  s.decide(0, /*retain=*/true);
  s.pull(kReader, 1, /*exact=*/true);
  s.send(Peer::of(kAuthority), wire::Release{Version(1)});
  s.push(1);
  s.decide(1, /*retain=*/true);
  s.send(Peer::of(kAuthority), wire::DiscardGradient{WorkerId(1, 0), Clock(1)});
  CHECK(s.waits() ==
        WaitTexts{"decision 1 and 1 after it wait for a released version to leave: node 0 (last seen "
                  "0.4 s ago) has 2 pieces to read"});
  s.sent.clear();
  REQUIRE(s.service->on_replies_sent().is_ok());
  CHECK(s.waits().empty());
}

TEST_CASE("how long a version usually lasts is what its waits are compared with") {
  WaitingShard s;
  s.open();
  s.initialize();
  s.tick(0s);
  s.push(0);
  s.decide(0);
  s.tick(4s);
  s.pull(kAsker, 2);
  const auto seen = [](Peer) { return std::optional<std::chrono::nanoseconds>(); };
  const auto waits = s.service->waits(seen, s.now);
  REQUIRE(waits.size() == 1);
  CHECK(waits[0].usual == 4s);
}

// Versions may follow one another quickly, and the network be slow.
TEST_CASE(
    "how long an older state usually takes to leave is what a pull that waits for it is compared with") {
  WaitingShard s;
  s.open();
  s.initialize();
  const auto seen = [](Peer) { return std::optional<std::chrono::nanoseconds>(); };
  const auto waits_while = [&](std::int64_t version) {  // that is current leaves, and is not any more
    s.pull(kReader, version);
    s.push(version);
    s.decide(version);
    s.pull(kAsker, version + 1);
    s.tick(50ms);
    return s.service->waits(seen, s.now);
  };
  const auto first = waits_while(0);
  REQUIRE(first.size() == 1);
  CHECK(first[0].usual == 0s);
  s.now = s.now + 7s;
  s.sent.clear();
  REQUIRE(s.service->on_replies_sent().is_ok());
  s.tick(0s);
  s.sent.clear();
  const auto second = waits_while(1);
  REQUIRE(second.size() == 1);
  CHECK(second[0].usual == 7s);
}

}  // namespace
}  // namespace paceline::server
