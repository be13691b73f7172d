// What two servers say to each other over connections that break.
#include "server/reliable_channel.h"

#include <catch2/catch.hpp>

#include "common/random.h"

namespace paceline::server {
namespace {

using Catch::Contains;

wire::Message release(std::int64_t version) { return {wire::Release{Version(version)}, {}}; }

TEST_CASE("what the other end has heard is not kept") {
  ReliableChannel talk;
  for (int i = 0; i < 5; ++i) talk.says(release(i));
  REQUIRE(talk.on_ack(3).is_ok());
  REQUIRE(talk.unacked().size() == 2);
  CHECK(std::get<wire::Release>(talk.unacked().front().body).version == Version(3));
  REQUIRE(talk.on_ack(3).is_ok());
  CHECK(talk.unacked().size() == 2);
  REQUIRE(talk.on_ack(5).is_ok());
  CHECK(talk.unacked().empty());
}

TEST_CASE("nobody has heard what was not said, nor forgets what it has heard") {
  ReliableChannel talk;
  for (int i = 0; i < 5; ++i) talk.says(release(i));
  REQUIRE(talk.on_ack(3).is_ok());
  CHECK_THAT(talk.on_ack(6).message(), Contains("messages heard: got 6, expected 3 to 5"));
  CHECK_THAT(talk.on_ack(2).message(), Contains("messages heard: got 2, expected 3 to 5"));
  CHECK(talk.unacked().size() == 2);
}

TEST_CASE("who never says what it has heard does not have everything kept for it") {
  ReliableChannel talk;
  for (std::size_t i = 0; i < ReliableChannel::kUnackedMax; ++i) talk.says(release(0));
  CHECK(!talk.ack_overdue());
  talk.says(release(0));
  CHECK(talk.ack_overdue());
  REQUIRE(talk.on_ack(1).is_ok());
  CHECK(!talk.ack_overdue());
}

TEST_CASE("what belongs to a connection does not count") {
  ReliableChannel talk;
  const wire::Body bodies[] = {wire::Heartbeat{}, wire::ShardJoin{}, wire::ShardWelcome{}};
  for (const wire::Body& body : bodies) {
    talk.says({body, {}});
    CHECK_FALSE(talk.hears({body, {}}));
  }
  CHECK((talk.unacked().empty() && talk.tell() == 0));
}

TEST_CASE("a shard's error is one of what it has to say, the authority's is a refusal") {
  ReliableChannel authority;
  ReliableChannel shard(ReliableChannel::End::kShard);
  const wire::Message error{wire::Error{}, {}};
  authority.says(error);
  shard.says(error);
  CHECK((authority.unacked().empty() && shard.unacked().size() == 1));
  (void)authority.hears(error);
  (void)shard.hears(error);
  CHECK((authority.tell() == 1 && shard.tell() == 0));
}

TEST_CASE("the other end is told often enough, and at once of a payload, which lies in memory") {
  ReliableChannel talk;
  for (int i = 1; i < ReliableChannel::kTellAfter; ++i) CHECK_FALSE(talk.hears(release(i)));
  CHECK(talk.hears(release(0)));
  CHECK(talk.tell() == ReliableChannel::kTellAfter);
  const std::byte bytes[4] = {};
  wire::Message piece{wire::Parameters{}, {nullptr, bytes, sizeof bytes}};
  CHECK(talk.hears(piece));
  CHECK(talk.hears({wire::ShardReport{}, {}}));  // after which the shard waits to end
}

// Each end reads a beginning of what was sent over a connection; then that breaks.
TEST_CASE("over connections that break anywhere each end hears all, once, and in order") {
  CounterRandom random(7, Stream::kTest, 0);
  ReliableChannel speaker;
  ReliableChannel listener;
  std::int64_t said = 0;
  std::int64_t heard = 0;
  for (int connection = 0; connection < 500; ++connection) {
    REQUIRE(speaker.on_ack(listener.tell()).is_ok());  // with the join, or the welcome
    std::deque<wire::Message> under_way = speaker.unacked();
    for (std::uint64_t i = random.next_below(9); i > 0; --i) {
      speaker.says(release(said++));
      under_way.push_back(speaker.unacked().back());
      const bool beats = random.next_below(4) == 0;
      if (beats) REQUIRE(speaker.on_ack(listener.tell()).is_ok());
      if (random.next_below(2) == 0) continue;
      CHECK(std::get<wire::Release>(under_way.front().body).version == Version(heard++));
      (void)listener.hears(under_way.front());
      under_way.pop_front();
    }
  }
  CHECK(heard > 500);
  REQUIRE(speaker.on_ack(listener.tell()).is_ok());
  CHECK(said - heard == static_cast<std::int64_t>(speaker.unacked().size()));
}

}  // namespace
}  // namespace paceline::server
