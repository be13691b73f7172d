// A shard's memory while its nodes read slowly: the bound under random schedules, and each rule by itself.
#include "tests/unit/slow_readers.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <utility>

#include "server/service/shard_service.h"
#include "server/store/reply_window.h"
#include "tests/unit/outbox_fixture.h"
#include "tests/unit/store_fixture.h"

namespace paceline::server {
namespace {

using namespace std::chrono_literals;
using wire::Parameters;

const Peer kNode0 = Peer::of(NodeId(0));
const Peer kNode1 = Peer::of(NodeId(1));
const Peer kNode2 = Peer::of(NodeId(2));
const Peer kTheAuthority = Peer::of(kAuthority);
const WorkerId kWorker(0, 0);

// Three nodes and one shard, of six floats in blocks of four. Nothing leaves before `sent` is emptied.
struct Conversation {
  explicit Conversation(std::int64_t floats = 6, std::int64_t block = 4, std::chrono::nanoseconds lease = 10s)
      : values(static_cast<std::size_t>(floats), 1.0F) {
    config.cluster.nodes = 3;
    config.cluster.lease = lease;
    config.cluster.frame_bytes = block * static_cast<std::int64_t>(sizeof(float));
    service.emplace(ShardId(0), config, sent, log, [this] { left = true; });
    REQUIRE(service->open(layout_of(floats)).is_ok());
    send(kNode0, wire::InitialParameters{0, true}, values);
  }
  void send(Peer from, wire::Body body, std::vector<float> payload = {}) {
    REQUIRE(service->handle(from, {std::move(body), payload_of(std::move(payload))}).is_ok());
  }
  void iterate(bool retain = false) {
    send(kNode0, push_of(kWorker, clock), values);
    auto decision = decision_of(clock, {{kWorker, Clock(clock), 1}}, clock + 1);
    decision.revision_after = Revision(++clock);
    decision.retain = retain;
    send(kTheAuthority, decision);
  }
  void pull(Peer from, std::int64_t min_version, Revision have = kNoRevision, bool exact = false,
            std::optional<Range> part = std::nullopt) {
    send(from, wire::Pull{++requests, Version(min_version), exact, have, part});
  }
  // What was sent to `node` leaves, and the service is told if it asked to be.
  void leave(Peer node) {
    std::erase_if(sent.entries, [node](const Sent::Entry& entry) { return entry.to == node; });
    if (std::exchange(left, false)) REQUIRE(service->on_replies_sent().is_ok());
  }
  // One piece of what was sent to `node` does. False: there is none.
  bool leave_one(Peer node) {
    const auto to_node = [node](const Sent::Entry& entry) { return entry.to == node; };
    const auto oldest = std::find_if(sent.entries.begin(), sent.entries.end(), to_node);
    if (oldest == sent.entries.end()) return false;
    sent.entries.erase(oldest);
    return true;
  }
  // `node` takes one piece after another, each `each` after the one before. When it was taken for lost, on a
  // clock that begins now; nullopt: it has taken all.
  std::optional<Ticks> lost_while_taking(Peer node, std::chrono::nanoseconds each) {
    for (Ticks now;; now = now + each) {
      service->tick(now);
      if (!sent.to_authority<wire::NodeLost>().empty()) return now;
      if (!leave_one(node)) return std::nullopt;
    }
  }
  // The versions that `node` is being answered with.
  std::vector<std::int64_t> answers(Peer node) const {
    std::vector<std::int64_t> versions;
    for (const auto& piece : sent.of<Parameters>(node)) {
      if (piece.last) versions.push_back(piece.version.value);
    }
    return versions;
  }

  const std::vector<float> values;  // of parameters and gradients
  RunConfig config;
  const Log log;
  Sent sent;
  bool left = false;
  std::optional<ShardService> service;
  std::int64_t clock = 0;
  std::uint64_t requests = 0;
};

struct IteratedOnce : Conversation {
  IteratedOnce() { iterate(); }
};

using Versions = std::vector<std::int64_t>;

}  // namespace

TEST_CASE(
    "a shard never holds more than its parameters twice and what it retains, however slowly they read") {
  std::int64_t prepared = 0;
  for (std::uint64_t seed = 1; seed <= 1500; ++seed)
    REQUIRE(violation_of_slow_readers(seed, &prepared) == "");
  CHECK(prepared > 2'000);  // the next state was there meanwhile
}

TEST_CASE("a pull joins the older state that is leaving, if that is new enough for it") {
  IteratedOnce c;
  c.pull(kNode0, 1);
  c.iterate();
  c.pull(kNode1, 1);
  CHECK(c.answers(kNode1) == Versions{1});  // though version 2 is there
  c.leave(kNode0);
  c.pull(kNode2, 0);
  CHECK(c.answers(kNode2) == Versions{1});  // still leaving, to node 1
  CHECK(c.service->shard()->blocks_in_use() == 4);
}

TEST_CASE("a pull that the leaving state cannot serve waits until that has left") {
  IteratedOnce c;
  c.pull(kNode0, 1);
  c.iterate();
  SECTION("it needs a newer version") { c.pull(kNode1, 2); }
  SECTION("it has that revision already") { c.pull(kNode1, 0, Revision(1)); }
  CHECK(c.answers(kNode1).empty());
  c.iterate();
  c.leave(kNode0);
  CHECK(c.answers(kNode1) == Versions{3});
}

// SSP and ASP: a refresh that is due, not required, must not make everybody wait for one slow reader.
TEST_CASE("who can go on with what it has is told so while an older state than the current one is leaving") {
  IteratedOnce c;
  c.pull(kNode0, 1);
  c.pull(kNode1, 1);
  c.leave(kNode1);
  c.iterate();
  c.pull(kNode1, 1, Revision(1));
  const auto same = c.sent.of<wire::Unchanged>(kNode1);
  REQUIRE(same.size() == 1);
  CHECK((same[0].version == Version(1) && same[0].revision == Revision(1)));
  CHECK(same[0].applied == std::vector<Clock>{Clock(0)});  // of its own threads
  SECTION("not when it needs more") { c.pull(kNode1, 2, Revision(1)); }
  SECTION("not when it says that it has something else") { c.pull(kNode1, 0, Revision(0)); }
  CHECK(c.sent.of<wire::Unchanged>(kNode1).size() == 1);
  CHECK(c.answers(kNode1).empty());
  c.leave(kNode0);
  c.pull(kNode1, 0, Revision(1));
  CHECK(c.answers(kNode1).back() == 2);  // once it has left, what is newest again
}

TEST_CASE("nobody goes on for ever with parameters that lack more and more of its own gradients") {
  Conversation c;  // bsp: two of them
  c.iterate();
  c.pull(kNode1, 1);
  c.pull(kNode0, 1);
  c.leave(kNode0);
  for (int i = 0; i < 2; ++i) {
    c.iterate();  // of a worker of node 0
    c.pull(kNode0, 1, Revision(1));
  }
  CHECK(c.sent.of<wire::Unchanged>(kNode0).size() == 2);
  c.iterate();
  c.pull(kNode0, 1, Revision(1));
  CHECK(c.sent.of<wire::Unchanged>(kNode0).size() == 2);
  c.leave(kNode1);
  CHECK(c.answers(kNode0) == Versions{4});
}

TEST_CASE("while somebody waits for a state to have left, only those join it who cannot go on without") {
  IteratedOnce c;
  c.pull(kNode1, 1);
  c.pull(kNode2, 1);
  c.leave(kNode1);
  c.leave(kNode2);
  c.iterate();
  c.pull(kNode0, 2);
  c.iterate();
  SECTION("nobody waits: it is given the newer one") {
    c.pull(kNode1, 1, Revision(1));
    CHECK(c.answers(kNode1) == Versions{2});
  }
  SECTION("node 2 waits") {
    c.pull(kNode2, 3);
    c.pull(kNode1, 1, Revision(1));
    CHECK(c.sent.of<wire::Unchanged>(kNode1).size() == 1);
    c.pull(kNode1, 2, Revision(1));
    CHECK(c.answers(kNode1) == Versions{2});
    c.leave(kNode0);
    CHECK(c.answers(kNode2).empty());
    c.leave(kNode1);
    CHECK(c.answers(kNode2) == Versions{3});
  }
}

TEST_CASE("a lost node that reads has a while to read why; then its connection is broken") {
  IteratedOnce c;
  c.pull(kNode1, 1);
  c.iterate();
  c.pull(kNode0, 2);
  c.send(kTheAuthority, wire::NodeLost{NodeId(1), "refused"});
  Ticks now;
  c.service->tick(now);
  c.service->tick(now + 2s);
  c.service->discount_pause({1s, now + 3s});
  c.service->tick(now + 3s);
  CHECK(c.answers(kNode1) == Versions{1});
  c.service->tick(now + 4s);
  CHECK(c.sent.of<Parameters>(kNode1).empty());
  REQUIRE(c.left);
  REQUIRE(c.service->on_replies_sent().is_ok());
  CHECK(c.answers(kNode0) == Versions{2});
}

TEST_CASE("a node is not answered twice with the same old state: it would never have left") {
  IteratedOnce c;
  c.pull(kNode0, 0);
  c.iterate();
  c.pull(kNode0, 0);  // sent before the first answer came
  CHECK(c.answers(kNode0) == Versions{1});
  c.leave(kNode0);
  CHECK(c.answers(kNode0) == Versions{2});
}

// Two parts, of which the node has none: the second joins the state that the first was answered from.
TEST_CASE("a node has each part once from the state that is leaving") {
  IteratedOnce c;
  c.pull(kNode0, 1);
  c.pull(kNode1, 1, kNoRevision, false, Range{0, 4});
  c.iterate();
  c.pull(kNode1, 0, kNoRevision, false, Range{4, 6});
  CHECK(c.answers(kNode1) == Versions{1, 1});
  c.pull(kNode1, 0, Revision(1), false, Range{4, 6});
  CHECK(c.answers(kNode1) == Versions{1, 1});
}

TEST_CASE("who has the newest is told so, whatever is leaving") {
  IteratedOnce c;
  c.pull(kNode0, 1);
  c.iterate();
  c.pull(kNode1, 2, Revision(2));
  CHECK(c.sent.of<wire::Unchanged>(kNode1).size() == 1);
}

TEST_CASE("exact pulls wait for nobody, and a retained version does not count as one that is leaving") {
  Conversation c;
  c.iterate(/*retain=*/true);
  c.pull(kNode0, 1, kNoRevision, /*exact=*/true);
  c.iterate();
  c.pull(kNode1, 2);
  CHECK(c.answers(kNode1) == Versions{2});
  c.iterate();
  c.pull(kNode2, 1, kNoRevision, /*exact=*/true);
  CHECK(c.answers(kNode2) == Versions{1});
}

TEST_CASE("no version is retained in the place of a released one whose replies are still leaving") {
  Conversation c;
  c.iterate(/*retain=*/true);
  c.pull(kNode1, 1, kNoRevision, /*exact=*/true);
  c.send(kTheAuthority, wire::Release{Version(1)});
  c.iterate(/*retain=*/true);
  c.pull(kNode2, 2);
  CHECK(c.service->shard()->now().version == Version(1));
  c.leave(kNode1);
  CHECK(c.service->shard()->now().version == Version(2));
  CHECK(c.service->shard()->retained(Version(2)) != nullptr);
  CHECK(c.answers(kNode2) == Versions{2});
}

// Eager: a version may be retained twice, under one name.
TEST_CASE("the authority's own pull does not overtake the decision that retains what it asks for") {
  Conversation c;
  c.iterate(/*retain=*/true);
  c.iterate(/*retain=*/true);
  c.pull(kNode1, 1, kNoRevision, /*exact=*/true);
  c.send(kTheAuthority, wire::Release{Version(1)});
  c.send(kNode0, push_of(kWorker, 2), c.values);
  auto decision = decision_of(2, {{kWorker, Clock(2), 1}}, 2);
  decision.revision_after = Revision(3);
  decision.retain = true;
  c.send(kTheAuthority, decision);
  c.pull(kTheAuthority, 2, kNoRevision, /*exact=*/true);
  CHECK(c.answers(kTheAuthority).empty());
  c.leave(kNode1);
  CHECK(c.answers(kTheAuthority) == Versions{2});
  CHECK(c.sent.of<Parameters>(kTheAuthority)[0].revision == Revision(3));
}

TEST_CASE(
    "a node that takes nothing of what it asked for during a lease is reported, and dropped once lost") {
  IteratedOnce c;
  c.pull(kNode1, 1);
  c.pull(kNode2, 1);
  Ticks now;
  c.service->tick(now);
  c.iterate();
  c.pull(kNode0, 2);
  c.sent.entries.erase(std::find_if(c.sent.entries.begin(), c.sent.entries.end(),
                                    [](const Sent::Entry& entry) { return entry.to == kNode2; }));
  c.service->tick(now + 9s);
  c.service->discount_pause({1s, now + 10s});  // stood still itself
  c.service->tick(now + 11s);
  CHECK(c.sent.to_authority<wire::NodeLost>().empty());
  c.service->tick(now + 12s);
  const auto lost = c.sent.to_authority<wire::NodeLost>();
  REQUIRE(lost.size() == 1);  // node 2 has taken a piece
  CHECK(lost[0].node == NodeId(1));
  CHECK(lost[0].why == "it has taken none of the parameters it asked shard 0 for in 10 s");
  c.leave(kNode2);
  CHECK(c.answers(kNode0).empty());
  c.send(kTheAuthority, lost[0]);
  CHECK(c.sent.of<Parameters>(kNode1).empty());
  REQUIRE(c.left);
  REQUIRE(c.service->on_replies_sent().is_ok());
  CHECK(c.answers(kNode0) == Versions{2});
}

// 50 pieces: one a lease would hold the state for 500 s.
TEST_CASE("a node that takes a piece now and then is reported after 30 leases, and what waits is answered") {
  Conversation c(200);
  c.iterate();
  c.pull(kNode1, 1);
  c.iterate();
  c.pull(kNode0, 2);
  SECTION("it trickles") {
    CHECK(c.lost_while_taking(kNode1, 9s) == Ticks() + 306s);  // the first look after 30 x 10 s
    const auto lost = c.sent.to_authority<wire::NodeLost>();
    REQUIRE(lost.size() == 1);
    CHECK(lost[0].node == NodeId(1));
    CHECK(lost[0].why == "it has taken only a part of the parameters it asked shard 0 for in 300 s");
    CHECK(c.answers(kNode0).empty());
    c.send(kTheAuthority, lost[0]);
    CHECK(c.sent.of<Parameters>(kNode1).empty());
  }
  SECTION("it is slow, but honest") { CHECK_FALSE(c.lost_while_taking(kNode1, 5s)); }
  REQUIRE(c.left);
  REQUIRE(c.service->on_replies_sent().is_ok());
  CHECK(c.answers(kNode0) == Versions{2});
}

// 2 MB in 500 pieces, which at 1 MB/s take longer than 30 leases of 10 ms.
TEST_CASE("a node after a slow link has the time that its parameters take at 1 MB/s") {
  Conversation c(500'000, 1000, 10ms);
  c.iterate();
  c.pull(kNode1, 1);
  SECTION("it reads a little faster") { CHECK_FALSE(c.lost_while_taking(kNode1, 3990us)); }
  SECTION("it reads slower") { CHECK(c.lost_while_taking(kNode1, 8ms) == Ticks() + 2008ms); }
}

// The second answer waits after the first for as long as that takes.
TEST_CASE("the time of an answer begins when all that was sent to its node before has left") {
  Conversation c(200);
  c.iterate(/*retain=*/true);
  c.pull(kNode1, 1);
  c.pull(kNode1, 1, kNoRevision, /*exact=*/true);
  CHECK_FALSE(c.lost_while_taking(kNode1, 5s));
  c.pull(kNode1, 1, kNoRevision, /*exact=*/true);
  CHECK(c.lost_while_taking(kNode1, 9s));  // an exact answer has no more time than another
}

}  // namespace paceline::server
