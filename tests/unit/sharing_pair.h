// A router and a dealer that share memory, and payloads that lie in a segment and whose release is seen.
#pragma once

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/codec.h"
#include "common/wire/shared_memory.h"
#include "tests/unit/segments.h"
#include "tests/unit/wire_loop.h"

namespace paceline::wire {

inline constexpr std::size_t kFloats = 64 * 1024;

// `floats` of the value `value` in the segment; `alive` counts those not let go of.
inline Payload in(const std::shared_ptr<SharedSegment>& memory, float value, std::atomic<int>& alive,
                  std::size_t floats = kFloats) {
  const std::size_t bytes = floats * sizeof(float);
  auto* values = static_cast<float*>(memory->allocate(bytes, alignof(float)));
  std::fill_n(values, floats, value);
  ++alive;
  const std::shared_ptr<const void> owner(values, [memory, bytes, &alive](float* v) {
    memory->deallocate(v, bytes, alignof(float));
    --alive;
  });
  return {owner, reinterpret_cast<const std::byte*>(values), bytes};
}

inline bool all_are(const Payload& payload, float value) {
  const auto floats = payload.floats();
  return floats.size() == kFloats && std::count(floats.begin(), floats.end(), value) == kFloats;
}

// A router and a dealer on one loop. The dealer has said its first message, and the router has answered.
struct Pair {
  TemporaryFolder folder;
  Context context;
  boost::asio::io_context io{1};
  std::shared_ptr<SharedSegment> of_router = segment();
  std::shared_ptr<SharedSegment> of_dealer = segment();
  bool router_shares = true;
  std::int64_t router_maps_max = kSegmentBytes;
  PeerId peer;
  Status shared = internal_error("the router was not asked");
  std::vector<Result<Message>> at_router;
  std::vector<Result<Message>> at_dealer;
  std::unique_ptr<RouterSocket> router;
  std::unique_ptr<DealerSocket> dealer;

  explicit Pair(const std::string& transport = "ipc", bool shares = true,
                std::int64_t dealer_maps_max = kSegmentBytes, std::int64_t router_max = kSegmentBytes,
                Pin pin_of_dealer = {})
      : router_shares(shares), router_maps_max(router_max) {
    const std::string endpoint = transport == "ipc" ? folder.ipc("pair") : "tcp://127.0.0.1:0";
    auto bound =
        RouterSocket::bind(context, io, endpoint, {}, [this](const PeerId& from, Result<Message> message) {
          if (peer.empty()) {
            peer = from;
            router->remember(from);
            if (router_shares) shared = router->share_memory(from, of_router, router_maps_max);
            (void)router->send(from, {Welcome{}, {}});
          }
          at_router.push_back(std::move(message));
        });
    REQUIRE(bound.is_ok());
    router = std::move(bound).value();
    TransportOptions options;
    options.memory = of_dealer;
    options.their_memory_bytes_max = dealer_maps_max;
    options.pin = std::move(pin_of_dealer);
    auto connected = DealerSocket::connect(context, io, router->endpoint(), options,
                                           [this](Result<Message> m) { at_dealer.push_back(std::move(m)); });
    REQUIRE(connected.is_ok());
    dealer = std::move(connected).value();
    REQUIRE(dealer->send({Join{.threads = 1, .tensors = {{"w", {1}, 0}}}, {}}).is_ok());
    REQUIRE(run_until(io, [&] { return at_dealer.size() == 1; }));
    // What follows the Welcome says that the dealer reads the router's memory.
    REQUIRE(dealer->send({Heartbeat{}, {}}).is_ok());
    REQUIRE(run_until(io, [&] { return at_router.size() == 2; }));
    at_router.clear();
    at_dealer.clear();
  }
  Status push(Payload payload) {
    return dealer->send({Push{.last = true, .samples = 1}, std::move(payload)});
  }
  // To the dealer, until it is there.
  void send_back(Payload payload) {
    const std::size_t before = at_dealer.size();
    REQUIRE(router->send(peer, {Parameters{.last = true}, std::move(payload)}).is_ok());
    REQUIRE(run_until(io, [&] { return at_dealer.size() > before; }));
  }
  // The `n`-th message at the router.
  const Result<Message>& routed(std::size_t n = 0) {
    REQUIRE(run_until(io, [&] { return at_router.size() > n; }));
    return at_router[n];
  }
};

}  // namespace paceline::wire
