// What two servers say to each other over connections that break.
#include "server/peers/reliable_channel.h"

#include <catch2/catch.hpp>

#include "common/random.h"

namespace paceline::server {
namespace {

using Catch::Contains;

wire::Message release(std::int64_t version) { return {wire::Release{Version(version)}, {}}; }

TEST_CASE("what the other end has heard is not kept") {
  ReliableChannel channel;
  for (int i = 0; i < 5; ++i) channel.on_send(release(i));
  REQUIRE(channel.on_ack(3).is_ok());
  REQUIRE(channel.unacked().size() == 2);
  CHECK(std::get<wire::Release>(channel.unacked().front().body).version == Version(3));
  REQUIRE(channel.on_ack(3).is_ok());
  CHECK(channel.unacked().size() == 2);
  REQUIRE(channel.on_ack(5).is_ok());
  CHECK(channel.unacked().empty());
}

TEST_CASE("nobody has heard what was not said, nor forgets what it has heard") {
  ReliableChannel channel;
  for (int i = 0; i < 5; ++i) channel.on_send(release(i));
  REQUIRE(channel.on_ack(3).is_ok());
  CHECK_THAT(channel.on_ack(6).message(), Contains("messages acknowledged: got 6, expected 3 to 5"));
  CHECK_THAT(channel.on_ack(2).message(), Contains("messages acknowledged: got 2, expected 3 to 5"));
  CHECK(channel.unacked().size() == 2);
}

TEST_CASE("who never says what it has heard does not have everything kept for it") {
  ReliableChannel channel;
  for (std::size_t i = 0; i < ReliableChannel::kUnackedMax; ++i) channel.on_send(release(0));
  CHECK(!channel.ack_overdue());
  channel.on_send(release(0));
  CHECK(channel.ack_overdue());
  REQUIRE(channel.on_ack(1).is_ok());
  CHECK(!channel.ack_overdue());
}

TEST_CASE("what belongs to a connection does not count") {
  ReliableChannel channel;
  const wire::Body bodies[] = {wire::Heartbeat{}, wire::ShardJoin{}, wire::ShardWelcome{}};
  for (const wire::Body& body : bodies) {
    channel.on_send({body, {}});
    CHECK_FALSE(channel.on_receive({body, {}}));
  }
  CHECK((channel.unacked().empty() && channel.ack() == 0));
}

TEST_CASE("a shard's error is one of what it has to say, the authority's is a refusal") {
  ReliableChannel authority;
  ReliableChannel shard(ReliableChannel::End::kShard);
  const wire::Message error{wire::Error{}, {}};
  authority.on_send(error);
  shard.on_send(error);
  CHECK((authority.unacked().empty() && shard.unacked().size() == 1));
  (void)authority.on_receive(error);
  (void)shard.on_receive(error);
  CHECK((authority.ack() == 1 && shard.ack() == 0));
}

TEST_CASE("the other end is told often enough, and at once of a payload, which lies in memory") {
  ReliableChannel channel;
  for (int i = 1; i < ReliableChannel::kAckAfter; ++i) CHECK_FALSE(channel.on_receive(release(i)));
  CHECK(channel.on_receive(release(0)));
  CHECK(channel.ack() == ReliableChannel::kAckAfter);
  const std::byte bytes[4] = {};
  wire::Message piece{wire::Parameters{}, {nullptr, bytes, sizeof bytes}};
  CHECK(channel.on_receive(piece));
  CHECK(channel.on_receive({wire::ShardReport{}, {}}));  // after which the shard waits to end
}

// Each end reads a beginning of what was sent over a connection; then that breaks.
TEST_CASE("over connections that break anywhere each end hears all, once, and in order") {
  CounterRandom random(7, Stream::kTest, 0);
  ReliableChannel speaker;
  ReliableChannel listener;
  std::int64_t reported = 0;
  std::int64_t received = 0;
  for (int connection = 0; connection < 500; ++connection) {
    REQUIRE(speaker.on_ack(listener.ack()).is_ok());  // with the join, or the welcome
    std::deque<wire::Message> under_way = speaker.unacked();
    for (std::uint64_t i = random.next_below(9); i > 0; --i) {
      speaker.on_send(release(reported++));
      under_way.push_back(speaker.unacked().back());
      const bool beats = random.next_below(4) == 0;
      if (beats) REQUIRE(speaker.on_ack(listener.ack()).is_ok());
      if (random.next_below(2) == 0) continue;
      CHECK(std::get<wire::Release>(under_way.front().body).version == Version(received++));
      (void)listener.on_receive(under_way.front());
      under_way.pop_front();
    }
  }
  CHECK(received > 500);
  REQUIRE(speaker.on_ack(listener.ack()).is_ok());
  CHECK(reported - received == static_cast<std::int64_t>(speaker.unacked().size()));
}

}  // namespace
}  // namespace paceline::server
