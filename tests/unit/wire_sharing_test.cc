// Payloads that lie in memory which both sides see: they arrive equal, unsent, and are let go of; where
// memory cannot be shared, they are sent as ever. The segments themselves: wire_segment_test.cc.
#include <thread>

#include "tests/unit/pins.h"
#include "tests/unit/sharing_pair.h"

namespace paceline::wire {

TEST_CASE("a payload in shared memory arrives equal, unsent, and is let go of, both ways") {
  Pair pair(GENERATE("ipc", "tcp"));
  CHECK(pair.shared.message() == "");
  CHECK(pair.dealer->shares_memory().message() == "");
  CHECK(pair.router->shares_memory(pair.peer).message() == "");
  std::atomic<int> alive{0};
  REQUIRE(pair.push(in(pair.of_dealer, 7, alive)).is_ok());
  CHECK(pair.routed().value().payload.borrowed);
  CHECK(all_are(pair.routed().value().payload, 7));
  CHECK(alive == 1);
  CHECK(pair.dealer->counters().push_bytes < 200);
  CHECK(pair.router->counters().push_bytes == pair.dealer->counters().push_bytes);
  CHECK(pair.dealer->counters().shared_bytes == kFloats * sizeof(float));

  pair.at_router.clear();
  CHECK(run_until(pair.io, [&] { return alive == 0; }));

  REQUIRE(pair.router->send(pair.peer, {Parameters{.last = true}, in(pair.of_router, 8, alive)}).is_ok());
  REQUIRE(run_until(pair.io, [&] { return pair.at_dealer.size() == 1; }));
  CHECK(all_are(pair.at_dealer[0].value().payload, 8));
  CHECK(pair.router->counters().parameter_bytes < 200);
  pair.at_dealer.clear();
  CHECK(run_until(pair.io, [&] { return alive == 0; }));
}

TEST_CASE("what is let go of on other threads, one by one, is said") {
  Pair pair;
  std::atomic<int> alive{0};
  constexpr int kPayloads = 50;
  for (int i = 0; i < kPayloads; ++i) REQUIRE(pair.push(in(pair.of_dealer, 1, alive, 1000)).is_ok());
  pair.routed(kPayloads - 1);
  CHECK(alive == kPayloads);
  std::vector<Payload> held;
  for (auto& message : pair.at_router) held.push_back(std::move(message.value().payload));
  std::thread dropping([&held] {
    while (!held.empty()) held.pop_back();
  });
  CHECK(run_until(pair.io, [&] { return alive == 0; }));
  dropping.join();
}

TEST_CASE("one that stays held does not keep the others") {
  Pair pair;
  std::atomic<int> alive{0};
  for (float value : {1.0F, 2.0F, 3.0F}) REQUIRE(pair.push(in(pair.of_dealer, value, alive)).is_ok());
  pair.routed(2);
  pair.at_router.pop_back();
  pair.at_router.pop_back();
  CHECK(run_until(pair.io, [&] { return alive == 1; }));
  CHECK(all_are(pair.routed().value().payload, 1));
}

TEST_CASE("memory outside the segment, what is small, and what is encoded is sent as ever") {
  Pair pair;
  Payloads payloads;
  std::atomic<int> alive{0};
  REQUIRE(pair.push(payloads.make(3, kFloats)).is_ok());
  CHECK_FALSE(pair.routed(0).value().payload.borrowed);
  REQUIRE(pair.push(in(pair.of_dealer, 4, alive, 10)).is_ok());
  CHECK_FALSE(pair.routed(1).value().payload.borrowed);
  CHECK(pair.routed(1).value().payload.floats()[9] == 4);
  Payload encoded = in(pair.of_dealer, 5, alive);
  encoded.encoding = Encoding::kBf16;
  encoded.encoded_floats = 2 * kFloats;
  REQUIRE(pair.push(encoded).is_ok());
  CHECK_FALSE(pair.routed(2).value().payload.borrowed);
  CHECK(pair.dealer->counters().shared_bytes == 0);
}

TEST_CASE("where one side does not share, payloads are sent") {
  Pair pair("ipc", /*shares=*/false);
  CHECK(pair.dealer->shares_memory().message() == "the peer announces no memory");
  std::atomic<int> alive{0};
  REQUIRE(pair.push(in(pair.of_dealer, 5, alive)).is_ok());
  CHECK_FALSE(pair.routed().value().payload.borrowed);
  CHECK(all_are(pair.routed().value().payload, 5));
  CHECK(run_until(pair.io, [&] { return alive == 0; }));
}

TEST_CASE("where one side cannot read the other's memory, payloads are sent both ways") {
  const bool dealer_cannot = GENERATE(true, false);
  Pair pair("ipc", true, dealer_cannot ? 64 : kSegmentBytes, dealer_cannot ? kSegmentBytes : 64);
  const Status cannot = dealer_cannot ? pair.dealer->shares_memory() : pair.shared;
  CHECK_THAT(cannot.message(), Catch::Contains("it has 4194368 bytes, expected at most 128"));
  CHECK(pair.router->shares_memory(pair.peer).message() ==
        (dealer_cannot ? "the peer cannot read the memory of this process" : "no memory is shared with it"));
  // A router that cannot read the dealer's memory does not even say where its own is.
  if (!dealer_cannot) CHECK(pair.dealer->shares_memory().message() == "the peer announces no memory");
  std::atomic<int> alive{0};
  REQUIRE(pair.push(in(pair.of_dealer, 5, alive)).is_ok());
  CHECK_FALSE(pair.routed().value().payload.borrowed);
  CHECK(all_are(pair.routed().value().payload, 5));
  REQUIRE(pair.router->send(pair.peer, {Parameters{.last = true}, in(pair.of_router, 8, alive)}).is_ok());
  REQUIRE(run_until(pair.io, [&] { return pair.at_dealer.size() == 1; }));
  CHECK_FALSE(pair.at_dealer[0].value().payload.borrowed);
  CHECK(all_are(pair.at_dealer[0].value().payload, 8));
  CHECK(run_until(pair.io, [&] { return alive == 0; }));
}

TEST_CASE("the memory of a peer that is of no interest any more is kept for what is still to be read there") {
  Pair pair;
  std::atomic<int> alive{0};
  const auto mapped = segments_mapped();  // each side its own and the other's
  REQUIRE(pair.push(in(pair.of_dealer, 1, alive)).is_ok());
  CHECK(all_are(pair.routed(0).value().payload, 1));
  REQUIRE(pair.router->send(pair.peer, {Parameters{.last = true}, in(pair.of_router, 8, alive)}).is_ok());
  REQUIRE(run_until(pair.io, [&] { return pair.at_dealer.size() == 1; }));

  pair.router->unmap(pair.peer);
  CHECK(segments_mapped() == mapped);
  CHECK(all_are(pair.routed(0).value().payload, 1));
  pair.at_router.clear();
  CHECK(segments_mapped() == mapped - 1);

  REQUIRE(pair.push(in(pair.of_dealer, 2, alive)).is_ok());
  REQUIRE(pair.dealer->send({Heartbeat{}, {}}).is_ok());
  CHECK(std::holds_alternative<Heartbeat>(pair.routed(0)->body));
  CHECK(pair.router->counters().malformed == 0);
  pair.at_dealer.clear();  // what was lent to it is let go of as before
  CHECK(run_until(pair.io, [&] { return alive == 2; }));
}

TEST_CASE("what a dealer reads of its server's memory is pinned, once for each time that it has grown") {
  Pins pins;
  Pair pair("ipc", true, kSegmentBytes, kSegmentBytes, pins.pin());
  const auto server_has = [&] {
    return static_cast<std::size_t>(bytes_in_use(static_cast<int>(pair.of_router->ref().descriptor)));
  };
  std::atomic<int> alive{0};
  CHECK(pins.asked.empty());
  pair.send_back(in(pair.of_router, 1, alive));
  REQUIRE(pins.asked.size() == 1);
  CHECK(pins.asked[0].size() == server_has());
  pair.send_back(in(pair.of_router, 2, alive));
  pair.send_back(in(pair.of_router, 3, alive));
  REQUIRE(pins.asked.size() == 3);
  CHECK(pins.asked[1].data() == pins.asked[0].data() + pins.asked[0].size());
  CHECK(pins.asked[2].data() == pins.asked[1].data() + pins.asked[1].size());
  CHECK(pins.asked[0].size() + pins.asked[1].size() + pins.asked[2].size() == server_has());
  for (const auto& message : pair.at_dealer) {
    const Payload& payload = message.value().payload;
    CHECK((payload.borrowed && pins.cover({payload.data, payload.size})));
  }

  pair.at_dealer.clear();
  REQUIRE(run_until(pair.io, [&] { return alive == 0; }));
  pair.send_back(in(pair.of_router, 4, alive));  // where the first one was
  CHECK(pins.asked.size() == 3);
  CHECK(all_are(pair.at_dealer[0].value().payload, 4));
}

TEST_CASE("what was made since is pinned together, and nothing where it cannot be") {
  Pins pins;
  pins.fail = GENERATE(false, true);
  Pair pair("ipc", true, kSegmentBytes, kSegmentBytes, pins.pin());
  std::atomic<int> alive{0};
  const Payload first = in(pair.of_router, 1, alive);
  const Payload second = in(pair.of_router, 2, alive);
  for (const Payload& payload : {second, first, second, first}) pair.send_back(payload);
  CHECK(pins.asked.size() == 1);
  CHECK(pins.held == (pins.fail ? 0 : 1));
  for (int i = 0; i < 4; ++i) CHECK(all_are(pair.at_dealer[i].value().payload, i % 2 == 0 ? 2 : 1));
}

TEST_CASE(
    "memory stays mapped and pinned for as long as a payload lies in it, and is mapped longer than pinned") {
  Pins pins;
  Pair pair("ipc", true, kSegmentBytes, kSegmentBytes, pins.pin());
  std::atomic<int> alive{0};
  pair.send_back(in(pair.of_router, 8, alive));
  Payload held = pair.at_dealer[0].value().payload;
  pair.at_dealer.clear();
  pair.dealer.reset();
  pair.of_router->deallocate(pair.of_router->allocate(1 << 20), 1 << 20);  // nobody looks for it any more
  CHECK(pins.asked.size() == 1);
  CHECK(pins.held == 1);
  CHECK(all_are(held, 8));
  const auto mapped = segments_mapped();
  held = {};
  CHECK(pins.held == 0);
  CHECK(pins.mapped_at_the_end == mapped);
  CHECK(segments_mapped() == mapped - 1);
}

}  // namespace paceline::wire
