// A shard and a node whose connection broke: what it says again counts once.
#include <catch2/catch.hpp>

#include "server/service/shard_service.h"
#include "tests/unit/outbox_fixture.h"
#include "tests/unit/store_fixture.h"

namespace paceline::server {
namespace {

const Peer kReturner = Peer::of(NodeId(0));
const Peer kBystander = Peer::of(NodeId(1));
const Peer kDecider = Peer::of(kAuthority);
const WorkerId kReturning(0, 0);
const NodeId kReturnerId(0);

// Two nodes with one thread each and one shard of six floats in blocks of four.
struct Reconnected {
  Reconnected() {
    config.cluster.nodes = 2;
    config.cluster.frame_bytes = 4 * sizeof(float);
    service.emplace(ShardId(0), config, sent, log, [] {});
    REQUIRE(service->open(layout_of(6)).is_ok());
  }
  void send(Peer from, wire::Body body, wire::Payload payload = {}) {
    REQUIRE(service->handle(from, {std::move(body), std::move(payload)}).is_ok());
  }
  void initialize() { send(kReturner, wire::InitialParameters{0, true}, floats(6, 1)); }
  static wire::Payload floats(std::size_t count, float value) {
    return payload_of(std::vector<float>(count, value));
  }
  void push_rest(std::int64_t clock, float value) {
    send(kReturner, push_of(kReturning, clock), floats(4, value));
  }
  void push_first(std::int64_t clock, float value) {
    send(kReturner, push_of(kReturning, clock, 4, false), floats(2, value));
  }
  void apply(std::int64_t clock) {
    auto decision = decision_of(clock, {{kReturning, Clock(clock), 1}}, clock + 1);
    decision.revision_after = Revision(clock + 1);
    send(kDecider, decision);
  }
  std::vector<float> parameters() const { return values_of(service->shard()->now().blocks); }
  std::size_t arrived() const { return sent.to_authority<wire::GradientArrived>().size(); }

  RunConfig config;
  Log log;
  Sent sent;
  std::optional<ShardService> service;
};

// The shard has its parameters.
struct ReconnectedReady : Reconnected {
  ReconnectedReady() { initialize(); }
};

TEST_CASE("a gradient that is whole here is dropped when it comes again: announced once, applied once") {
  const bool applied = GENERATE(true, false);
  ReconnectedReady r;
  r.push_first(0, 1);
  r.push_rest(0, 1);
  if (applied) r.apply(0);
  r.service->on_reconnect(kReturnerId);
  r.push_first(0, 1);
  r.push_rest(0, 1);
  CHECK(r.arrived() == 1);
  CHECK(r.sent.of<wire::Error>(kReturner).empty());
  CHECK((r.service->repeated() == 2 && r.service->refused() == 0));
  if (!applied) r.apply(0);
  CHECK(r.parameters() == std::vector<float>(6, 0.0F));
  r.push_first(1, 1);
  r.push_rest(1, 1);
  CHECK(r.arrived() == 2);
}

TEST_CASE("a gradient that was here in part begins anew, with the same frames or others") {
  ReconnectedReady r;
  r.push_first(0, 100);
  r.service->on_reconnect(kReturnerId);
  CHECK(r.service->shard()->gradients_held() == 0);
  r.push_first(0, 1);
  r.push_rest(0, 1);
  REQUIRE(r.arrived() == 1);
  r.apply(0);
  CHECK(r.parameters() == std::vector<float>(6, 0.0F));
}

TEST_CASE("whose gradient was withdrawn, or was late, goes on with the next") {
  ReconnectedReady r;
  r.push_first(0, 1);
  r.send(kReturner, wire::Withdraw{kReturning, Clock(0)});
  r.service->on_reconnect(kReturnerId);
  r.push_first(1, 1);
  r.send(kDecider, wire::DiscardGradient{kReturning, Clock(1)});  // before it is whole: it is late
  r.service->on_reconnect(kReturnerId);
  r.push_first(1, 1);
  r.push_rest(1, 1);
  CHECK(r.arrived() == 1);
  CHECK(r.service->shard()->gradients_held() == 0);
  CHECK(r.sent.of<wire::Error>(kReturner).empty());
}

TEST_CASE("what was prepared of a gradient that was here in part is dropped with it") {
  ReconnectedReady r;
  r.send(kBystander, push_of(WorkerId(1, 0), 0, 4, false), Reconnected::floats(2, 5));
  r.push_first(0, 100);
  while (r.service->work_ahead()) {
  }
  r.service->on_reconnect(kReturnerId);
  r.push_first(0, 1);
  r.push_rest(0, 1);
  r.apply(0);
  CHECK(r.parameters() == std::vector<float>(6, 0.0F));
}

// What a node lends is its own again once its connection is given up.
TEST_CASE("of a gradient that lies in the node's memory nothing is read there any more") {
  ReconnectedReady r;
  std::vector<float> theirs(6, 1.0F);
  bool let_go = false;
  const auto lent = [&](std::size_t begin, std::size_t count) {
    wire::Payload payload{std::shared_ptr<const void>(theirs.data(), [&](const void*) { let_go = true; }),
                          reinterpret_cast<const std::byte*>(theirs.data() + begin), count * sizeof(float)};
    payload.borrowed = true;
    return payload;
  };
  r.send(kReturner, push_of(kReturning, 0, 4, false), lent(4, 2));
  r.send(kReturner, push_of(kReturning, 0), lent(0, 4));
  REQUIRE(r.arrived() == 1);
  r.service->on_reconnect(kReturnerId);
  CHECK(let_go);
  theirs.assign(6, 50.0F);
  r.apply(0);
  CHECK(r.parameters() == std::vector<float>(6, 0.0F));
}

TEST_CASE("initial parameters that had come in part come anew, and whole ones stay") {
  Reconnected r;
  r.send(kReturner, wire::InitialParameters{0, false}, Reconnected::floats(4, 9));
  r.service->on_reconnect(kReturnerId);
  r.send(kReturner, wire::InitialParameters{0, false}, Reconnected::floats(4, 1));
  r.send(kReturner, wire::InitialParameters{4, true}, Reconnected::floats(2, 1));
  CHECK(r.sent.to_authority<wire::ShardReady>().size() == 1);
  CHECK(r.parameters() == std::vector<float>(6, 1.0F));
  r.service->on_reconnect(kReturnerId);
  CHECK(r.service->is_initialized());
}

TEST_CASE("pulls that waited are dropped, and those that are asked again answered, though others leave") {
  ReconnectedReady r;
  r.send(kReturner, wire::Pull{1, Version(1), false, kNoRevision});
  r.service->on_reconnect(kReturnerId);
  r.send(kReturner, wire::Pull{1, Version(1), false, kNoRevision});
  r.push_first(0, 1);
  r.push_rest(0, 1);
  r.apply(0);
  const auto pieces = r.sent.of<wire::Parameters>(kReturner);
  REQUIRE(pieces.size() == 2);  // one answer, of which both pieces are still on their way
  CHECK(pieces[0].version == Version(1));
  for (int times = 0; times < 20; ++times) {
    r.service->on_reconnect(kReturnerId);
    r.send(kReturner, wire::Pull{1, Version(1), false, kNoRevision});
  }
  CHECK(r.sent.of<wire::Error>(kReturner).empty());
  CHECK(r.sent.of<wire::Parameters>(kReturner).size() == 42);
}

TEST_CASE(
    "a node whose answers break again and again, and that comes no further, may not come back for ever") {
  ReconnectedReady r;
  const auto lease = std::chrono::nanoseconds(r.config.cluster.lease);
  Ticks now(0);
  const auto breaks = [&](int times, std::chrono::nanoseconds apart) {
    for (int i = 0; i < times; ++i) {
      r.send(kReturner, wire::Pull{1, Version(0), false, kNoRevision});
      now = now + apart;
      if (!r.service->may_reconnect(kReturnerId, now).is_ok()) return false;
      r.service->on_reconnect(kReturnerId);
    }
    return true;
  };
  CHECK(breaks(50, lease / 100));  // a bad moment
  const bool pushes = GENERATE(true, false);
  if (pushes) {
    r.push_first(0, 1);
    r.push_rest(0, 1);
  }
  CHECK(breaks(16, lease / 10) == pushes);
  CHECK_FALSE(breaks(1, lease));
  CHECK(r.service->may_reconnect(NodeId(1), now).is_ok());  // nothing is on its way to it
}

TEST_CASE("who has not lost its connection and says a gradient twice is told so") {
  ReconnectedReady r;
  r.service->on_reconnect(NodeId(1));
  r.push_first(0, 1);
  r.push_rest(0, 1);
  r.push_first(0, 1);
  CHECK(r.sent.of<wire::Error>(kReturner).size() == 1);
  CHECK(r.service->refused() == 1);
}

}  // namespace
}  // namespace paceline::server
