// Buckets of an all-reduce that leave before the gradient is whole, and what becomes of them where it is then of other
// samples than it was taken for.
#include <catch2/catch.hpp>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "common/ticks.h"
#include "worker/allreduce/allreduce_exchange.h"

namespace paceline::testing {
namespace {

// A node alone, with two buckets of two floats each.
class NodeAlone {
 public:
  NodeAlone() {
    config_.exchange.kind = ExchangeKind::kAllreduce;
    config_.exchange.algorithm = schedule::Algorithm::kRing;
    config_.exchange.bucket_bytes = 8;
    config_.train.batch_size = 8;
    config_.train.optimizer.lr = 1.0;
    for (const char* name : {"a", "b"}) REQUIRE(layout_.add(name, {2}));
    cache_.emplace(std::vector<Range>{{0, layout_.size()}});
    exchange_ =
        std::make_unique<AllReduceExchange>(AllReduceExchange::Parts{config_,
                                                                     NodeId(0),
                                                                     layout_,
                                                                     *cache_,
                                                                     steady_now,
                                                                     [](const Status&) {},
                                                                     {},
                                                                     [this](const BucketSpan&) {
                                                                       const std::lock_guard lock(mutex_);
                                                                       ++summed_;
                                                                       changed_.notify_all();
                                                                     }});
    const auto listening = mesh::listen_at("127.0.0.1");
    REQUIRE(listening.is_ok());
    REQUIRE(exchange_->connect(*listening, {0, {listening->endpoint}, 7, {NodeId(0)}}).is_ok());
    REQUIRE(exchange_->begin({Version(0), std::vector<float>(4, 0.0F)}).is_ok());
  }
  // The second bucket leaves before anybody says of how many samples it is. How many buckets have been summed in all.
  int step(std::int64_t clock, std::int64_t samples) {
    const auto gradient = std::make_shared<const std::vector<float>>(4, 1.0F);
    Contribution own{WorkerId(0, 0), Clock(clock), 0, Version(clock), {}, gradient};
    exchange_->push_early(own, 2);
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&, before = summed_at_step_] { return summed_ > before; });
    }
    own.samples = samples;
    exchange_->push(own);
    const std::lock_guard lock(mutex_);
    return summed_ - std::exchange(summed_at_step_, summed_);
  }
  std::vector<float> parameters() const { return exchange_->last_state()->floats; }

 private:
  RunConfig config_;
  Layout layout_;
  std::optional<ProcessCache> cache_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int summed_ = 0;
  int summed_at_step_ = 0;
  std::unique_ptr<AllReduceExchange> exchange_;  // outlived by what its thread calls
};

TEST_CASE(
    "a bucket leaves before its gradient is whole, and once more where that is of other samples than the "
    "last one") {
  NodeAlone node;
  CHECK(node.step(0, 8) == 2);
  CHECK(node.step(1, 5) == 4);
  CHECK(node.step(2, 5) == 2);
  CHECK(node.step(3, 8) == 4);
  CHECK(node.parameters() == std::vector<float>(4, -4.0F));  // of one node the mean is its gradient
}

}  // namespace
}  // namespace paceline::testing
