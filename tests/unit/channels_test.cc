// Channels between two nodes: what one writes for the other, in its memory or over a connection, and how much of it.
#include "worker/mesh/channels.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/eventually.h"
#include "worker/mesh/handshake.h"

namespace paceline {
namespace {

using testing::eventually;

// Channels of two nodes, which hear so much of each other.
struct Two {
  Two(const PeerBounds& of_0, const PeerBounds& of_1, bool shares) : stops(2), open(2) {
    for (int rank = 0; rank < 2; ++rank) {
      listening.push_back(std::make_unique<mesh::Listening>(mesh::listen_at("127.0.0.1").value()));
      endpoints.push_back(listening.back()->endpoint);
    }
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        const mesh::Place place{rank, endpoints, 7, {}, shares};
        auto connections = mesh::shake_hands(*listening[rank], place, stops[rank], std::chrono::seconds(20));
        open[rank] = mesh::Channels::over(std::move(connections).value(), place, stops[rank],
                                          {{of_0, rank == 0 ? of_1 : PeerBounds{}}, {8, 8}});
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (!shares) return;
    eventually([&] { return open[0]->shares_with(NodeId(1)) && open[1]->shares_with(NodeId(0)); });
  }
  // What a node writes and sends; where it has written it.
  const float* send(std::uint32_t from, std::int64_t floats, float value) {
    PeerRoom room = open[from]->room(NodeId(1 - from), floats);
    std::fill(room.span().begin(), room.span().end(), value);
    const float* const at = room.span().data();
    PeerMessage message;
    message.floats = std::move(room).done();
    REQUIRE(open[from]->send(NodeId(1 - from), std::move(message)).is_ok());
    return at;
  }
  PeerMessage receive(std::uint32_t at) { return open[at]->receive(NodeId(1 - at)).value(); }

  std::vector<std::unique_ptr<mesh::Listening>> listening;
  std::vector<std::string> endpoints;
  std::vector<mesh::StopFlag> stops;
  std::vector<std::shared_ptr<mesh::Channels>> open;
};

PeerMessage note_of(float value) {
  PeerMessage message;
  message.floats = std::vector<float>{value};
  return message;
}

bool all_are(const PeerMessage& message, std::size_t floats, float value) {
  const std::span<const float> came = message.floats.span();
  return came.size() == floats &&
         std::all_of(came.begin(), came.end(), [value](float each) { return each == value; });
}

TEST_CASE("what_is_written_for_a_node_of_the_machine_is_read_there_and_its_place_used_again") {
  constexpr std::size_t kFloats = 16 * 1024;  // of which there is room for two messages
  const PeerBounds bounds{kFloats, 4, kFloats, 2};
  Two two(bounds, bounds, /*shares=*/true);
  const float* const first = two.send(0, kFloats, 1.0F);
  PeerMessage held = two.receive(1);
  two.send(0, kFloats, 2.0F);
  two.send(0, kFloats, 3.0F);  // which finds no room
  CHECK(all_are(two.receive(1), kFloats, 2.0F));
  CHECK(all_are(two.receive(1), kFloats, 3.0F));
  CHECK(all_are(held, kFloats, 1.0F));
  eventually([&] { return two.open[0]->shared() == 2; });
  held = {};
  two.send(1, kFloats, 4.0F);  // and says that it has read
  CHECK(all_are(two.receive(0), kFloats, 4.0F));
  eventually([&] { return two.open[0]->room(NodeId(1), kFloats).span().data() == first; });
  // Who is gone is found, and what it has left can be read.
  two.send(1, kFloats, 5.0F);
  held = two.receive(0);
  two.open[1].reset();
  CHECK(two.open[0]->receive(NodeId(1)).status().code() == StatusCode::kUnavailable);
  CHECK(all_are(held, kFloats, 5.0F));
  CHECK_FALSE(two.open[0]->shares_with(NodeId(1)));
}

// A node that sends more than is expected of it costs no memory, and one that has nothing to say says nothing.
TEST_CASE("what_is_longer_or_more_than_a_stage_can_send_ends_its_connection") {
  struct Sent {
    std::size_t floats;
    int messages;
    const char* why;
  };
  for (const Sent& sent : {Sent{9, 1, "sends 9 floats after 0 messages that wait, expected at most 8 floats"},
                           Sent{8, 3, "sends 8 floats after 2 messages that wait"}}) {
    Two two({0, 1'000'000}, {8, 2}, /*shares=*/false);
    auto& open = two.open;
    // Parameters stand beside messages; of three versions the last two are kept.
    for (const std::int64_t version : {1, 2, 3}) {
      std::vector<float> floats(8, static_cast<float>(version));
      REQUIRE(open[1]->send_parameters(NodeId(0), Version(version), std::move(floats)).is_ok());
    }
    // What has been sent is not sent again, nor what is older.
    CHECK((open[1]->has_sent_parameters(NodeId(0), Version(2)) &&
           !open[1]->has_sent_parameters(NodeId(0), Version(4))));
    for (const std::int64_t version : {2, 3})
      REQUIRE(open[1]->send_parameters(NodeId(0), Version(version), {}).is_ok());
    REQUIRE(open[1]->send(NodeId(0), note_of(4.0F)).is_ok());
    CHECK(open[0]->receive(NodeId(1)).value().floats.span().front() == 4.0F);  // so all have come
    CHECK(open[0]->receive_parameters(NodeId(1), Version(2)).value().front() == 2.0F);
    CHECK(open[0]->receive_parameters(NodeId(1), Version(3)).value().front() == 3.0F);
    REQUIRE(open[1]->send_parameters(NodeId(0), Version(5), {}).is_ok());
    CHECK(open[0]->receive_parameters(NodeId(1), Version(4)).status().code() == StatusCode::kNotFound);
    PeerMessage message;
    message.floats = std::vector<float>(sent.floats);
    for (int n = 0; n < sent.messages; ++n) REQUIRE(open[1]->send(NodeId(0), message).is_ok());
    // Those within the bounds are kept, until the connection has ended.
    eventually([&] { return static_cast<bool>(open[0]->gone()); });
    for (int n = 1; n < sent.messages; ++n) CHECK(open[0]->receive(NodeId(1)).is_ok());
    const auto refused = open[0]->receive(NodeId(1));
    CHECK(refused.status().code() == StatusCode::kUnavailable);
    CHECK_THAT(refused.status().message(), Catch::Contains(sent.why));
  }
}

}  // namespace
}  // namespace paceline
