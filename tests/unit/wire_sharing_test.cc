// Payloads that lie in memory which both sides see: they arrive equal, unsent, and are let go of; where
// memory cannot be shared, they are sent as ever. The segments themselves: wire_segment_test.cc.
#include <thread>

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

}  // namespace paceline::wire
