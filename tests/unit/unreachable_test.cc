// Who cannot be sent to: lost at once when a message was dropped, when it has fallen silent otherwise.
#include "server/peers/unreachable.h"

#include <catch2/catch.hpp>

namespace paceline::server {
namespace {

const Peer kNode = Peer::of(NodeId(3));
const auto kSilent = [](Peer, Ticks) { return false; };
const auto kTalking = [](Peer, Ticks) { return true; };

TEST_CASE("a peer whose queue was full is lost at the next tick, whatever it still says") {
  Unreachable unreachable;
  unreachable.add(kNode, resource_exhausted("65536 messages wait for it"), Ticks(1));
  const auto lost = unreachable.take_lost(Ticks(2), kTalking);
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].peer == kNode);
  CHECK(lost[0].why == "65536 messages wait for it");
  CHECK(unreachable.take_lost(Ticks(3), kSilent).empty());
}

TEST_CASE("a peer whose connection broke is lost once nothing more has come from it") {
  Unreachable unreachable;
  unreachable.add(kNode, unavailable("no route"), Ticks(1));
  for (int i = 0; i < 10; ++i) CHECK(unreachable.take_lost(Ticks(2), kTalking).empty());
  unreachable.add(kNode, unavailable("no route"), Ticks(2));  // known already
  for (int i = 1; i < Unreachable::kQuietTicks; ++i) CHECK(unreachable.take_lost(Ticks(3), kSilent).empty());
  const auto lost = unreachable.take_lost(Ticks(3), kSilent);
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].why == "its connection broke");
}

TEST_CASE("a dropped message ends the wait for a broken connection") {
  Unreachable unreachable;
  unreachable.add(kNode, unavailable("no route"), Ticks(1));
  CHECK(unreachable.dropped(kNode).is_ok());  // it may come back
  unreachable.add(kNode, resource_exhausted("full"), Ticks(1));
  CHECK(unreachable.dropped(kNode).code() == StatusCode::kResourceExhausted);
  CHECK(unreachable.take_lost(Ticks(2), kTalking).size() == 1);
}

TEST_CASE("a node whose connection broke is given time to come back, and is forgotten when it has") {
  Unreachable unreachable;
  const auto late = [&](std::int64_t ns) { return unreachable.take_lost(Ticks(ns), kSilent).size(); };
  unreachable.add(kNode, unavailable("no route"), Ticks(1), std::chrono::nanoseconds(100));
  for (int i = 0; i < 10; ++i) CHECK(late(100) == 0);
  CHECK(unreachable.is_missing(kNode));
  unreachable.forget(kNode);
  CHECK_FALSE(unreachable.is_missing(kNode));
  CHECK(late(1000) == 0);
  unreachable.add(kNode, unavailable("no route"), Ticks(1000), std::chrono::nanoseconds(100));
  while (late(1099) > 0) FAIL("too soon");
  for (int i = 0; i < Unreachable::kQuietTicks; ++i) REQUIRE(late(1099) == 0);
  CHECK(late(1100) == 1);
}

TEST_CASE("who is seen to go by another peer as well, about then, is not given time to come back") {
  for (const auto& [seen_at, taken] : {std::pair(900, true), {1100, true}, {899, false}, {1101, false}}) {
    Unreachable unreachable;
    unreachable.ended_elsewhere(Peer::of(NodeId(4)), Ticks(1000));
    unreachable.ended_elsewhere(kNode, Ticks(seen_at));
    unreachable.add(kNode, unavailable("no route"), Ticks(1000), std::chrono::nanoseconds(100));
    for (int i = 0; i < Unreachable::kQuietTicks; ++i)
      REQUIRE(unreachable.take_lost(Ticks(1001), kSilent).empty());
    CHECK(unreachable.take_lost(Ticks(1002), kTalking).empty());  // what it had said is read first
    for (int i = 0; i < Unreachable::kQuietTicks - 1; ++i)
      REQUIRE(unreachable.take_lost(Ticks(1003), kSilent).empty());
    CHECK((unreachable.take_lost(Ticks(1003), kSilent).size() == 1) == taken);
  }
  Unreachable unreachable;  // it was seen to go by another peer alone, and comes back here
  unreachable.ended_elsewhere(kNode, Ticks(1000));
  unreachable.forget(kNode);
  unreachable.add(kNode, unavailable("no route"), Ticks(1000), std::chrono::nanoseconds(100));
  for (int i = 0; i < 10; ++i) CHECK(unreachable.take_lost(Ticks(1001), kSilent).empty());
}

TEST_CASE("whose connection to another peer ended long before ours may have met that one again since") {
  const Ticks broke(20'000'000'000);
  const auto is_lost = [&](Ticks seen_at) {
    Unreachable unreachable;
    unreachable.ended_elsewhere(kNode, seen_at);
    unreachable.add(kNode, unavailable("no route"), broke, std::chrono::seconds(10));
    for (int i = 0; i < Unreachable::kQuietTicks; ++i) REQUIRE(unreachable.take_lost(broke, kSilent).empty());
    return !unreachable.take_lost(broke, kSilent).empty();
  };
  CHECK(is_lost(Ticks(broke.ns - 1'500'000'000)));
  CHECK_FALSE(is_lost(Ticks(broke.ns - 1'500'000'001)));
  CHECK(is_lost(broke + std::chrono::seconds(10)));
}

TEST_CASE(
    "whose connection to another peer has just ended is in doubt until ours is known to have broken, or for "
    "a while") {
  Unreachable unreachable;
  CHECK(unreachable.in_doubt(Ticks(1000)).empty());
  unreachable.ended_elsewhere(kNode, Ticks(1000));
  CHECK(unreachable.in_doubt(Ticks(1'500'001'000)) == std::vector<Peer>{kNode});
  CHECK(unreachable.in_doubt(Ticks(1'500'001'001)).empty());
  unreachable.add(kNode, unavailable("no route"), Ticks(2000));
  CHECK(unreachable.in_doubt(Ticks(2000)).empty());
}

TEST_CASE("while this process stood still nobody could be heard to come back") {
  Unreachable unreachable;
  unreachable.add(kNode, unavailable("no route"), Ticks(1000), std::chrono::nanoseconds(100));
  for (int i = 0; i < Unreachable::kQuietTicks; ++i)
    CHECK(unreachable.take_lost(Ticks(1050), kSilent).empty());
  unreachable.discount_pause({std::chrono::nanoseconds(5000), Ticks(6050)});
  CHECK(unreachable.take_lost(Ticks(6050), kSilent).empty());
  CHECK(unreachable.take_lost(Ticks(6100), kSilent).empty());  // time is up, but it is to be read first
  CHECK(unreachable.take_lost(Ticks(6100), kSilent).size() == 1);
}

}  // namespace
}  // namespace paceline::server
