// The exchange of an all-reduce after its node's last round, while others of the run are lost.
#include <catch2/catch.hpp>
#include <future>
#include <vector>

#include "common/ticks.h"
#include "worker/allreduce/allreduce_exchange.h"

namespace paceline::testing {
namespace {

struct AtEndOfThread {
  std::promise<void>* ended = nullptr;
  ~AtEndOfThread() {
    if (ended != nullptr) ended->set_value();
  }
};

// Others are lost around the last step, all who are left have made it, and so the authority makes up no formation.
TEST_CASE("after its last round a node misses no formation, and still gives what it has") {
  RunConfig config;
  config.exchange.kind = ExchangeKind::kAllreduce;
  config.exchange.algorithm = schedule::Algorithm::kRing;
  config.cluster.nodes = 1;
  Layout layout;
  REQUIRE(layout.add("w", {8}));
  ProcessCache cache({{0, layout.size()}});
  std::promise<void> ended;
  int failures = 0;
  AllReduceExchange* self = nullptr;
  AllReduceExchange exchange({config, NodeId(0), layout, cache, steady_now,
                              [&](const Status&) { ++failures; },
                              [&](const AllReduceExchange::Parting&) -> Result<AllReduceExchange::Meeting> {
                                thread_local AtEndOfThread at_end;
                                at_end.ended = &ended;
                                self->end_rounds();  // meanwhile
                                return deadline_exceeded("no formation within 100 s");
                              }});
  self = &exchange;
  const auto listening = mesh::listen_at("127.0.0.1");
  REQUIRE(listening.is_ok());
  mesh::Place place;
  place.nodes = {NodeId(0)};
  place.endpoints = {listening->endpoint};
  REQUIRE(exchange.connect(*listening, place).is_ok());
  REQUIRE(exchange.begin({Version(0), std::vector<float>(8, 1.0F)}).is_ok());
  const auto gradient = std::make_shared<const std::vector<float>>(8, 0.5F);
  exchange.push({WorkerId(0, 0), Clock(0), 1, Version(0), {}, gradient});
  exchange.leave(1, "node 1 is lost");
  ended.get_future().wait();
  CHECK(failures == 0);
  std::vector<float> floats(8);
  CHECK(exchange.fetch_exact(Version(1), floats).is_ok());
  CHECK(exchange.last_state()->version == Version(1));
}

}  // namespace
}  // namespace paceline::testing
