// Who is let into a run, and when somebody has been silent for too long.
#include "server/peers/membership.h"

#include <catch2/catch.hpp>
#include <optional>

#include "common/config/load.h"

namespace paceline::server {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;

RunConfig two_nodes_two_shards() {
  RunConfig config;
  config.cluster.nodes = 2;
  config.cluster.threads_per_node = 4;
  config.cluster.shards = 2;
  config.cluster.lease = 10s;
  return config;
}

Membership at_the_authority() { return {two_nodes_two_shards(), kAuthority}; }

wire::Join join_of(std::uint32_t node, std::uint64_t incarnation = 1, std::int64_t floats = 8) {
  Layout layout;
  REQUIRE(layout.add("w", {floats}).is_ok());
  wire::Join join;
  join.node = NodeId(node);
  join.incarnation = incarnation;
  join.threads = 4;
  join.config_fingerprint = fingerprint(two_nodes_two_shards());
  join.settings = settings(two_nodes_two_shards());
  join.layout_hash = layout.hash();
  join.tensors = layout.tensors();
  join.data_fingerprint = 0xDA7A;
  return join;
}

Ticks at(std::chrono::nanoseconds time) { return Ticks(time.count()); }

TEST_CASE("a node that fits is let in, and its connection speaks for it") {
  Membership membership = at_the_authority();
  const auto layout = membership.admit(join_of(1), "connection", at(0s));
  REQUIRE(layout.is_ok());
  CHECK(layout->size() == 8);
  CHECK(membership.who("connection") == Peer::of(NodeId(1)));
  CHECK_FALSE(membership.who("another").has_value());
  CHECK(*membership.connection_of(Peer::of(NodeId(1))) == "connection");
  CHECK(membership.present() == std::vector<Peer>{Peer::of(NodeId(1))});
}

TEST_CASE("who is forgotten may come again, as another process, and its connection is a stranger's") {
  Membership membership = at_the_authority();
  REQUIRE(membership.admit(join_of(1, 7), "before", at(0s)).is_ok());
  membership.forget(Peer::of(NodeId(1)));
  CHECK_FALSE(membership.who("before").has_value());
  CHECK(membership.present().empty());
  CHECK_FALSE(membership.is_gone(Peer::of(NodeId(1))));
  REQUIRE(membership.admit(join_of(1, 8), "after", at(0s)).is_ok());
  CHECK(membership.who("after") == Peer::of(NodeId(1)));
}

TEST_CASE("of two connections of a process the later one counts, in whichever order they are read") {
  Membership membership = at_the_authority();
  wire::Join join = join_of(1);
  REQUIRE(membership.admit(join, "first", at(0s)).is_ok());
  CHECK_FALSE(membership.is_behind(join));
  wire::Join third = join;
  third.connection = 3;
  CHECK_FALSE(membership.is_behind(third));
  REQUIRE(membership.go_on(third, "third", at(0s)).is_ok());
  wire::Join second = join;
  second.connection = 2;
  CHECK((membership.is_behind(join) && membership.is_behind(second)));
  CHECK_FALSE(membership.is_behind(join_of(1, 2)));  // another process
}

TEST_CASE("what does not fit is refused with both values named") {
  Membership membership = at_the_authority();
  REQUIRE(membership.admit(join_of(0), "first", at(0s)).is_ok());
  wire::Join join = join_of(1);
  std::string got;
  std::string expected;
  SECTION("protocol version") {
    join.protocol_version = 99;
    got = "protocol version 99";
    expected = "expected " + std::to_string(wire::kProtocolVersion);
  }
  SECTION("configuration") {
    RunConfig other = two_nodes_two_shards();
    other.train.batch_size = 64;
    join.config_fingerprint = fingerprint(other);
    join.settings = settings(other);
    got = "train.batch_size: got 64";
    expected = "expected 128: give every daemon the same configuration";
  }
  SECTION("configuration of somebody who does not say it") {
    join.config_fingerprint = 0xEF;
    join.settings.clear();
    got = "configuration fingerprint 0x00000000000000ef";
    expected = "expected 0x";
  }
  SECTION("incarnation") {
    join.incarnation = 0;
    got = "incarnation 0x0000000000000000";
    expected = "0 is no process";
  }
  SECTION("threads") {
    join.threads = 3;
    got = "threads 3";
    expected = "expected 4";
  }
  SECTION("node number") {
    join.node = NodeId(2);
    got = "node 2";
    expected = "0 to 1";
  }
  SECTION("another layout than the first node's") {
    join = join_of(1, 1, 9);
    got = "parameter layout 0x";
    expected = "as node 0 has: tensor 0: got 'w' (9), expected 'w' (8)";
  }
  SECTION("other data than the first node's") {
    join.data_fingerprint = 0xDA7B;
    got = "data fingerprint 0x000000000000da7b";
    expected = "0x000000000000da7a as node 0 has";
  }
  SECTION("other data than the run that is resumed has learned from") {
    membership.expect_data(0xDA7B);
    got = "data fingerprint 0x000000000000da7a";
    expected = "0x000000000000da7b as the checkpoint has";
  }
  SECTION("a layout that is not the one it says") {
    join.tensors[0].shape = {9};
    got = "parameter layout 0x";
    expected = "as its tensors say";
  }
  const auto refused = membership.admit(join, "second", at(0s));
  CHECK(refused.status().code() == StatusCode::kInvalidArgument);
  CHECK_THAT(refused.status().message(), Contains(got) && Contains(expected));
  CHECK_FALSE(membership.who("second").has_value());
}

TEST_CASE("a join given twice is harmless; neither another process nor another connection takes its place") {
  Membership membership = at_the_authority();
  REQUIRE(membership.admit(join_of(0, 7), "first", at(0s)).is_ok());
  CHECK(membership.admit(join_of(0, 7), "first", at(0s)).is_ok());
  CHECK(membership.admit(join_of(0, 8), "intruder", at(0s)).status().code() ==
        StatusCode::kFailedPrecondition);
  CHECK(membership.admit(join_of(0, 7), "second", at(0s)).status().code() == StatusCode::kFailedPrecondition);
  CHECK(*membership.connection_of(Peer::of(NodeId(0))) == "first");
}

TEST_CASE("one connection cannot be two nodes") {
  Membership membership = at_the_authority();
  REQUIRE(membership.admit(join_of(0), "connection", at(0s)).is_ok());
  CHECK(membership.admit(join_of(1), "connection", at(0s)).status().code() ==
        StatusCode::kFailedPrecondition);
}

TEST_CASE("who has gone is not taken back, and is still known by its connection") {
  Membership membership = at_the_authority();
  REQUIRE(membership.admit(join_of(0), "connection", at(0s)).is_ok());
  membership.remove(Peer::of(NodeId(0)));
  CHECK(membership.is_gone(Peer::of(NodeId(0))));
  CHECK(membership.connection_of(Peer::of(NodeId(0))) == nullptr);
  CHECK(membership.who("connection") == Peer::of(NodeId(0)));
  CHECK(membership.admit(join_of(0, 2), "again", at(0s)).status().code() == StatusCode::kFailedPrecondition);
}

TEST_CASE("a peer is silent once its lease has passed without a word, not before") {
  Membership membership = at_the_authority();
  REQUIRE(membership.admit(join_of(0), "a", at(0s)).is_ok());
  REQUIRE(membership.admit(join_of(1), "b", at(0s)).is_ok());
  membership.seen(Peer::of(NodeId(1)), at(5s));
  CHECK(membership.silent(at(10s)).empty());
  const auto silent = membership.silent(at(11s));
  REQUIRE(silent.size() == 1);
  CHECK(silent[0].peer == Peer::of(NodeId(0)));
  CHECK(silent[0].silent == 11s);
}

TEST_CASE("nobody is to blame for the time in which this process stood still") {
  Membership membership = at_the_authority();
  REQUIRE(membership.admit(join_of(0), "a", at(0s)).is_ok());
  membership.seen(Peer::of(NodeId(0)), at(30ms));  // after the moment that the pause is counted from
  membership.discount_pause({60s, at(60s)});
  CHECK(membership.silent(at(65s)).empty());
  CHECK(membership.silent(at(71s)).size() == 1);
}

TEST_CASE("the authority takes the other shards, each once, and not itself") {
  Membership membership = at_the_authority();
  const auto join = [&](std::uint32_t shard, const char* connection,
                        std::uint64_t print = fingerprint(two_nodes_two_shards())) {
    return membership
        .admit(wire::ShardJoin{.shard = ShardId(shard), .config_fingerprint = print, .incarnation = 1},
               connection, at(0s))
        .code();
  };
  CHECK(join(0, "x") == StatusCode::kInvalidArgument);
  CHECK(join(2, "x") == StatusCode::kInvalidArgument);
  CHECK(join(1, "x", 5) == StatusCode::kInvalidArgument);
  CHECK(join(1, "x") == StatusCode::kOk);
  CHECK(join(1, "y") == StatusCode::kFailedPrecondition);
}

TEST_CASE("another shard goes on over a later connection as the process that it is, and as no other") {
  Membership membership = at_the_authority();
  wire::ShardJoin join{.shard = ShardId(1), .config_fingerprint = fingerprint(two_nodes_two_shards())};
  CHECK(membership.admit(join, "first", at(0s)).code() ==
        StatusCode::kInvalidArgument);  // nobody's incarnation
  join.incarnation = 7;
  REQUIRE(membership.admit(join, "first", at(0s)).is_ok());
  join.connection = 3;
  CHECK((membership.is_here(join) && !membership.is_behind(join)));
  REQUIRE(membership.go_on(join, "third", at(0s)).is_ok());
  CHECK(*membership.connection_of(Peer::of(ShardId(1))) == "third");
  CHECK(membership.moves_of(Peer::of(ShardId(1))) == 1);
  join.connection = 2;
  CHECK(membership.is_behind(join));
  join.incarnation = 8;
  CHECK_FALSE((membership.is_here(join) || membership.is_behind(join)));
  CHECK(membership.go_on(join, "second", at(0s)).code() == StatusCode::kFailedPrecondition);
}

TEST_CASE(
    "the same process goes on over another connection, and who speaks over the one before is a stranger") {
  Membership membership = at_the_authority();
  REQUIRE(membership.admit(join_of(1, 7), "before", at(0s)).is_ok());
  CHECK_FALSE(membership.is_here(join_of(1, 8)));
  REQUIRE(membership.is_here(join_of(1, 7)));
  REQUIRE(membership.go_on(join_of(1, 7), "after", at(5s)).is_ok());
  CHECK(membership.who("after") == Peer::of(NodeId(1)));
  CHECK_FALSE(membership.who("before").has_value());
  CHECK(*membership.connection_of(Peer::of(NodeId(1))) == "after");
  CHECK(membership.moves_of(NodeId(1)) == 1);
  CHECK(membership.silent(at(12s)).empty());
}

TEST_CASE("who joined at the other replica is here, cannot be sent to, and comes over a connection") {
  Membership membership = at_the_authority();
  const Peer node = Peer::of(NodeId(1));
  CHECK_FALSE(membership.has_joined(node));
  REQUIRE(membership.admit(join_of(1, 7), std::nullopt, at(0s)).is_ok());
  CHECK((membership.has_joined(node) && membership.is_present(node) && membership.is_elsewhere(node)));
  CHECK(membership.connection_of(node) == nullptr);
  CHECK(membership.admit(join_of(1, 8), "intruder", at(0s)).status().code() ==
        StatusCode::kFailedPrecondition);
  REQUIRE(membership.go_on(join_of(1, 7), std::nullopt, at(5s)).is_ok());  // there
  CHECK(membership.is_elsewhere(node));
  REQUIRE(membership.go_on(join_of(1, 7), "here", at(6s)).is_ok());
  CHECK_FALSE(membership.is_elsewhere(node));
  CHECK(membership.who("here") == node);
  membership.remove(node);
  CHECK_FALSE((membership.is_present(node) || membership.is_elsewhere(node)));
}

TEST_CASE(
    "nobody goes on who is another process, has gone, does not fit, or speaks over another's connection") {
  Membership membership = at_the_authority();
  REQUIRE(membership.admit(join_of(0, 7), "zero", at(0s)).is_ok());
  REQUIRE(membership.admit(join_of(1, 7), "one", at(0s)).is_ok());
  CHECK(membership.go_on(join_of(1, 8), "x", at(0s)).code() == StatusCode::kFailedPrecondition);
  CHECK(membership.go_on(join_of(1, 7), "zero", at(0s)).code() == StatusCode::kFailedPrecondition);
  CHECK(membership.go_on(join_of(1, 7, 9), "x", at(0s)).code() == StatusCode::kInvalidArgument);
  membership.remove(Peer::of(NodeId(1)));
  const Status gone = membership.go_on(join_of(1, 7), "x", at(0s));
  CHECK(gone.message() == "node 1 has gone from this run");
  CHECK(*membership.connection_of(Peer::of(NodeId(0))) == "zero");
  CHECK_FALSE(membership.who("x").has_value());
}

TEST_CASE("a connection that breaks more often than any network breaks it is not taken back") {
  Membership membership = at_the_authority();
  REQUIRE(membership.admit(join_of(1), "0", at(0s)).is_ok());
  int times = 0;
  for (; times < Membership::kMovesMax; ++times) {
    REQUIRE(membership.go_on(join_of(1), std::to_string(times + 1), at(1s)).is_ok());
  }
  CHECK(membership.go_on(join_of(1), "more", at(2s)).code() == StatusCode::kResourceExhausted);
  CHECK(membership.go_on(join_of(1), "later", at(20s)).is_ok());
}

}  // namespace
}  // namespace paceline::server
