// A shard's conversation: who may say what, what is answered now, later or never.
#include "server/service/shard_service.h"

#include <catch2/catch.hpp>

#include "tests/unit/outbox_fixture.h"
#include "tests/unit/shard_peers.h"
#include "tests/unit/store_fixture.h"

namespace paceline::server {
namespace {

using wire::Error;
using wire::Parameters;

// Two nodes with one thread each and one shard of six floats in blocks of four.
struct Conversation {
  explicit Conversation(std::int64_t floats = 6, void (*configure)(RunConfig&) = [](RunConfig&) {}) {
    config.cluster.nodes = 2;
    config.cluster.frame_bytes = 4 * sizeof(float);
    configure(config);
    service.emplace(ShardId(0), config, sent, log, [] {});
    REQUIRE(service->open(layout_of(floats)).is_ok());
  }
  void send(Peer from, wire::Body body, std::vector<float> values = {}) {
    REQUIRE(service->handle(from, {std::move(body), payload_of(std::move(values))}).is_ok());
  }
  void initialize() { send(kNode0, wire::InitialParameters{0, true}, std::vector<float>(6, 1.0F)); }
  // The iteration of the worker at `clock`, pushed and decided.
  void iterate(std::int64_t clock, bool retain = false) {
    send(kNode0, push_of(kWorker, clock), std::vector<float>(6, 1.0F));
    auto decision = decision_of(clock, {{kWorker, Clock(clock), 1}}, clock + 1);
    decision.revision_after = Revision(clock + 1);
    decision.retain = retain;
    send(kTheAuthority, decision);
  }
  wire::Pull pull(std::int64_t min_version, bool exact = false, Revision have = kNoRevision) {
    return {++requests, Version(min_version), exact, have};
  }

  RunConfig config;
  Log log;
  Sent sent;
  std::optional<ShardService> service;
  std::uint64_t requests = 0;
};

// The shard has its parameters.
struct ReadyConversation : Conversation {
  ReadyConversation() { initialize(); }
};

TEST_CASE("the authority is told once the initial parameters are whole, and they come from node 0 only") {
  Conversation c;
  c.send(kNode1, wire::InitialParameters{0, true}, std::vector<float>(6));
  CHECK(c.sent.of<Error>(kNode1).size() == 1);
  CHECK(c.sent.to_authority<wire::ShardReady>().empty());
  c.initialize();
  CHECK(c.sent.to_authority<wire::ShardReady>().size() == 1);
}

TEST_CASE("a whole gradient is reported to the authority, one in another's name is refused") {
  ReadyConversation c;
  c.send(kNode0, push_of(kWorker, 0), std::vector<float>(6));
  c.send(kNode1, push_of(kWorker, 1), std::vector<float>(6));
  const auto arrived = c.sent.to_authority<wire::GradientArrived>();
  REQUIRE(arrived.size() == 1);
  CHECK(arrived[0].worker == kWorker);
  CHECK(c.sent.of<Error>(kNode1).size() == 1);
  CHECK(c.service->refused() == 1);
}

TEST_CASE("a push that came twice is ignored; one after a gap is an error that its sender cannot outlive") {
  ReadyConversation c;
  c.send(kNode0, push_of(kWorker, 0), std::vector<float>(6));
  c.send(kNode0, push_of(kWorker, 0), std::vector<float>(6));
  c.send(kNode0, push_of(kWorker, 1), std::vector<float>(4));
  const auto errors = c.sent.of<Error>(kNode0);
  REQUIRE(errors.size() == 2);
  CHECK_FALSE(errors[0].fatal);
  CHECK(errors[1].fatal);
}

TEST_CASE("a gradient is withdrawn by its own worker, and only while it is here in part") {
  ReadyConversation c;
  c.send(kNode0, push_of(kWorker, 0, 4, false), {1, 1});
  c.send(kNode1, wire::Withdraw{kWorker, Clock(0)});
  REQUIRE(c.sent.of<Error>(kNode1).size() == 1);
  CHECK(c.sent.of<Error>(kNode1)[0].message == "withdrawal from node 1 in the name of worker 0.0");
  c.send(kNode0, wire::Withdraw{kWorker, Clock(0)});
  CHECK(c.sent.of<Error>(kNode0).empty());
  c.send(kNode0, push_of(kWorker, 1), std::vector<float>(6));
  CHECK(c.sent.to_authority<wire::GradientArrived>().size() == 1);
  c.send(kNode0, wire::Withdraw{kWorker, Clock(1)});
  REQUIRE(c.sent.of<Error>(kNode0).size() == 1);
  CHECK_FALSE(c.sent.of<Error>(kNode0)[0].fatal);
}

// Grant and decision travel on different connections: a worker may push on before the decision about its
// last gradient is here.
// Two are held where gradients are applied as they come.
TEST_CASE("a gradient that fills its worker's bound is announced when a decision has made room") {
  ReadyConversation c;
  c.send(kNode0, push_of(kWorker, 0), std::vector<float>(6));
  c.send(kNode0, push_of(kWorker, 1), std::vector<float>(6));
  CHECK(c.sent.to_authority<wire::GradientArrived>().size() == 1);  // or the third might come now
  c.send(kTheAuthority, decision_of(0, {{kWorker, Clock(0), 1}}, 1));
  const auto arrived = c.sent.to_authority<wire::GradientArrived>();
  REQUIRE(arrived.size() == 2);
  CHECK(arrived[1].clock == Clock(1));
  CHECK(c.service->refused() == 0);
}

TEST_CASE("a pull is answered in pieces of one revision; the first carries the node's applied clocks") {
  ReadyConversation c;
  c.iterate(0);
  c.send(kNode0, c.pull(1));
  const auto pieces = c.sent.of<Parameters>(kNode0);
  REQUIRE(pieces.size() == 2);
  CHECK((pieces[0].offset == 0 && !pieces[0].last));
  CHECK((pieces[1].offset == 4 && pieces[1].last && pieces[1].applied.empty()));
  CHECK(pieces[0].applied == std::vector<Clock>{Clock(1)});
  CHECK((pieces[0].version == Version(1) && pieces[0].revision == Revision(1)));
  CHECK(c.sent.entries.back().message.payload.floats()[0] == 0.0F);  // 1 - 1
}

TEST_CASE("a_node_that_trains_a_part_is_sent_that_alone") {
  Conversation c;
  std::vector<float> initial = {0, 1, 2, 3, 4, 5};
  c.send(kNode0, wire::InitialParameters{0, true}, initial);
  const auto sent = [&c](Range part) {
    c.sent.clear();
    wire::Pull pull = c.pull(0);
    pull.part = part;
    c.send(kNode0, pull);
    std::vector<float> floats;
    for (const Sent::Entry& entry : c.sent.entries) {
      const auto piece = entry.message.payload.floats();
      floats.insert(floats.end(), piece.begin(), piece.end());
    }
    return floats;
  };
  CHECK(sent({1, 5}) == std::vector<float>{1, 2, 3, 4});    // over the end of a block
  CHECK(c.sent.of<Parameters>(kNode0).back().offset == 3);  // of the part
  CHECK(c.sent.of<Parameters>(kNode0).back().last);
  CHECK(sent({4, 6}) == std::vector<float>{4, 5});
  CHECK(c.sent.of<Parameters>(kNode0).size() == 1);
  CHECK(sent({0, 0}).empty());
  CHECK(c.sent.of<Parameters>(kNode0).front().last);
  sent({5, 7});
  CHECK_THAT(c.sent.of<Error>(kNode0).at(0).message, Catch::Contains("expected some of [0, 6)"));
}

// One worker's push and pull at once: the current state goes down while the gradient comes up, and these two
// states are all there is.
TEST_CASE("a state that is leaving stays whole while the next one is made of the frames that arrive") {
  Conversation c(6, [](RunConfig& config) {
    config.cluster.nodes = 1;
    config.sync.policy = PolicyKind::kAsp;
    config.sync.apply = ApplyMode::kEager;
    config.sync.combine = CombineMode::kEach;
  });
  c.initialize();
  for (std::int64_t clock = 0; clock < 3; ++clock) {
    c.sent.clear();  // the last answer has been read
    c.send(kNode0, c.pull(0, false, Revision(clock - 1)));
    REQUIRE(c.sent.of<Parameters>(kNode0).size() == 2);
    std::vector<float> before;
    const auto floats_sent = [&] {
      std::vector<float> floats;
      for (const Sent::Entry& entry : c.sent.entries) {
        const auto part = entry.message.payload.floats();
        floats.insert(floats.end(), part.begin(), part.end());
      }
      return floats;
    };
    before = floats_sent();
    auto push = push_of(kWorker, clock);
    push.offset = 4;
    push.last = false;
    push.samples = 0;
    c.send(kNode0, push, {1, 1});
    CHECK(c.service->work_ahead());  // a third of it is here
    c.send(kNode0, push_of(kWorker, clock), {1, 1, 1, 1});
    CHECK_FALSE(c.service->work_ahead());  // the last piece is applied as it comes
    CHECK(c.service->shard()->blocks_in_use() == 4);
    auto decision = decision_of(clock, {{kWorker, Clock(clock), 1}}, clock + 1);
    decision.revision_after = Revision(clock + 1);
    decision.learning_rate = c.config.train.optimizer.lr;
    c.send(kTheAuthority, decision);
    CHECK(c.service->shard()->next().committed() == 2 * (clock + 1));
    CHECK(c.service->shard()->blocks_in_use() == 4);  // what has left is the next one's
    CHECK(floats_sent() == before);
  }
}

TEST_CASE("a pull for a version to come is held until it is there") {
  Conversation c;
  c.send(kNode1, c.pull(0));  // not even the initial parameters are
  CHECK(c.sent.of<Parameters>(kNode1).empty());
  c.initialize();
  CHECK(c.sent.of<Parameters>(kNode1).size() == 2);
  c.sent.clear();
  c.send(kNode1, c.pull(2));
  c.iterate(0);
  CHECK(c.sent.of<Parameters>(kNode1).empty());
  c.iterate(1);
  CHECK(c.sent.of<Parameters>(kNode1).size() == 2);
}

TEST_CASE("who has the newest revision is told that nothing changed") {
  ReadyConversation c;
  c.iterate(0);
  c.send(kNode0, c.pull(0, false, Revision(1)));
  REQUIRE(c.sent.of<wire::Unchanged>(kNode0).size() == 1);
  CHECK(c.sent.of<Parameters>(kNode0).empty());
  c.send(kNode0, c.pull(0, false, Revision(0)));
  CHECK(c.sent.of<Parameters>(kNode0).size() == 2);
}

TEST_CASE("an exact version is the retained one, held before it is there, refused after it was released") {
  ReadyConversation c;
  c.send(kNode1, c.pull(1, true));
  c.iterate(0, /*retain=*/true);
  REQUIRE(c.sent.of<Parameters>(kNode1).size() == 2);
  c.iterate(1);
  c.send(kNode1, c.pull(1, true));
  REQUIRE(c.sent.of<Parameters>(kNode1).size() == 4);
  CHECK(c.sent.of<Parameters>(kNode1)[3].version == Version(1));
  CHECK(c.sent.entries.back().message.payload.floats()[0] == 0.0F);  // not the newest, which is -1
  c.send(kNode1, c.pull(3, true));                                   // never retained
  c.send(kTheAuthority, wire::Release{Version(1)});
  c.send(kNode1, c.pull(1, true));
  CHECK(c.sent.of<Error>(kNode1).size() == 1);
  c.iterate(2);
  c.iterate(3);
  const auto errors = c.sent.of<Error>(kNode1);
  REQUIRE(errors.size() == 2);
  for (const Error& error : errors) CHECK((error.code == StatusCode::kNotFound && !error.fatal));
}

TEST_CASE("held pulls are bounded for each node") {
  ReadyConversation c;
  for (int i = 0; i < 3; ++i) c.send(kNode1, c.pull(9));  // one thread, and two more
  CHECK(c.sent.of<Error>(kNode1).empty());
  c.send(kNode1, c.pull(9));
  CHECK(c.sent.of<Error>(kNode1).size() == 1);
  c.send(kNode0, c.pull(9));  // another node has its own share
  CHECK(c.sent.of<Error>(kNode0).empty());
}

TEST_CASE("who does not read its answers gets no more of them") {
  ReadyConversation c;
  for (int i = 0; i < 10; ++i) c.send(kNode1, c.pull(0));  // nothing leaves: `sent` keeps every payload
  CHECK_FALSE(c.sent.of<Error>(kNode1).empty());
  c.sent.clear();
  c.send(kNode1, c.pull(0));
  CHECK(c.sent.of<Error>(kNode1).empty());
}

TEST_CASE("a lost node is refused, and its held pulls are forgotten") {
  ReadyConversation c;
  c.send(kNode0, push_of(kWorker, 0, 5, false), {1});
  CHECK(c.service->shard()->gradients_held() == 1);
  c.send(kNode0, c.pull(5));
  c.send(kTheAuthority, wire::NodeLost{NodeId(0)});
  CHECK(c.service->shard()->gradients_held() == 0);
  c.send(kNode0, push_of(kWorker, 0), std::vector<float>(5));
  CHECK(c.sent.of<Error>(kNode0).size() == 1);
}

TEST_CASE("a message that is not for a shard, or comes too early, is refused and the shard lives on") {
  Conversation c;
  c.send(kNode0, push_of(kWorker, 0), std::vector<float>(6));  // before the initial parameters
  c.send(kNode0, wire::Grant{});
  CHECK(c.sent.of<Error>(kNode0).size() == 2);
  c.initialize();
  CHECK(c.sent.to_authority<wire::ShardReady>().size() == 1);
}

TEST_CASE("a decision that does not follow the last one ends the shard") {
  ReadyConversation c;
  const Status status = c.service->handle(kTheAuthority, {decision_of(3, {}, 1), {}});
  CHECK(status.code() == StatusCode::kOutOfOrder);
}

TEST_CASE("a layout that this machine cannot hold is refused before memory is taken") {
  RunConfig config;
  Sent sent;
  const Log log;
  ShardService service(ShardId(0), config, sent, log, [] {});
  CHECK(service.open(layout_of(std::int64_t{1} << 40)).status().code() == StatusCode::kResourceExhausted);
}

TEST_CASE("a state is nobody's to send where servers hold the parameters") {
  ReadyConversation c;
  c.send(kNode0, wire::NodeState{Version(1), 0, true}, std::vector<float>(6, 2.0F));
  CHECK(c.sent.of<Error>(kNode0).size() == 1);
}

}  // namespace
}  // namespace paceline::server
