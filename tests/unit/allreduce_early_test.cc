// The exchange of an all-reduce while its node still computes: what of a gradient is final leaves, and the rest does
// not.
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "common/ticks.h"
#include "tests/unit/eventually.h"
#include "worker/allreduce/allreduce_exchange.h"

namespace paceline::testing {
namespace {

// A node of two, whose layout is two buckets.
struct EarlyNode {
  static constexpr std::int64_t kTensor = 1000;
  static constexpr std::int64_t kBytesSent =
      kTensor * 4;  // of a bucket: half of it, summed, and the other half

  EarlyNode(NodeId node, const RunConfig& config, const Layout& layout)
      : gradient{WorkerId(node, 0), Clock(0), 1,
                 Version(0),        {},       std::make_shared<const std::vector<float>>(2 * kTensor, 1.0F)},
        cache({{0, layout.size()}}),
        exchange({config,
                  node,
                  layout,
                  cache,
                  steady_now,
                  [](const Status&) {},
                  {},
                  [this](const BucketSpan& span) {
                    const std::lock_guard lock(mutex);
                    spans.push_back(span);
                  }}) {}
  std::int64_t bytes_early() const { return exchange.pushed_early(gradient.worker, steady_now()).bytes; }
  std::vector<BucketSpan> reduced() {
    const std::lock_guard lock(mutex);
    return spans;
  }

  const Contribution gradient;
  ProcessCache cache;
  std::mutex mutex;
  std::vector<BucketSpan> spans;
  AllReduceExchange exchange;
};

TEST_CASE("a bucket leaves once it is final, and the next one waits for the rest of the gradient") {
  RunConfig config;
  config.exchange.kind = ExchangeKind::kAllreduce;
  config.exchange.algorithm = schedule::Algorithm::kRing;
  config.exchange.bucket_bytes = EarlyNode::kTensor * 4;
  config.cluster.nodes = 2;
  config.train.batch_size = 1;  // as many samples as the gradients are of
  Layout layout;
  for (const char* name : {"a", "b"}) REQUIRE(layout.add(name, {EarlyNode::kTensor}));
  EarlyNode nodes[] = {{NodeId(0), config, layout}, {NodeId(1), config, layout}};
  const mesh::Listening listening[] = {mesh::listen_at("127.0.0.1").value(),
                                       mesh::listen_at("127.0.0.1").value()};
  const auto both = [&](const std::function<void(std::uint32_t)>& body) {
    std::thread other([&] { body(1); });
    body(0);
    other.join();
  };
  Status met[2];
  both([&](std::uint32_t n) {
    met[n] = nodes[n].exchange.connect(listening[n], {n, {listening[0].endpoint, listening[1].endpoint}, 7});
    if (met[n].is_ok())
      met[n] = nodes[n].exchange.begin({Version(0), std::vector<float>(2 * EarlyNode::kTensor, 0.0F)});
  });
  REQUIRE((met[0].is_ok() && met[1].is_ok()));
  for (EarlyNode& node : nodes) node.exchange.push_early(node.gradient, EarlyNode::kTensor);
  for (EarlyNode& node : nodes) {
    eventually([&] { return node.bytes_early() == EarlyNode::kBytesSent; });
    CHECK(node.exchange.version() == Version(0));
    const std::vector<BucketSpan> early = node.reduced();
    REQUIRE(early.size() == 1);
    CHECK((early[0].bucket == 0 && early[0].bytes == EarlyNode::kBytesSent));
  }
  both([&](std::uint32_t n) { nodes[n].exchange.push(nodes[n].gradient); });
  for (EarlyNode& node : nodes) {
    CHECK(node.exchange.version() == Version(1));
    CHECK(node.exchange.traffic().reduced == 2 * EarlyNode::kBytesSent);
    const std::vector<BucketSpan> all = node.reduced();
    REQUIRE(all.size() == 2);
    CHECK(all[1].bucket == 1);
  }
}

}  // namespace
}  // namespace paceline::testing
