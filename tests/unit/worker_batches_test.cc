// Which mini-batches a run can have: what a grant asks for is looked at before the task makes room for it,
// what the task counts before anybody is told.
#include <catch2/catch.hpp>

#include "tests/unit/train_fixture.h"

namespace paceline {
namespace {

using testing::TrainFixture;

step::Grant grant_of_batch(const BatchPart& batch) {
  step::Grant grant = testing::grant_of(0, Threshold(0), 0);
  grant.batch = batch;
  return grant;
}

RunConfig config_of_batches(BatchSizing sizing) {
  RunConfig config;
  config.cluster.nodes = 2;
  config.cluster.threads_per_node = 2;
  config.train.batch_size = 64;
  config.train.batch_balance = sizing;
  config.train.total_iterations = 1000;
  return config;
}

TEST_CASE("a run has mini-batches of one size, or by speed of up to a whole clock, and ends somewhere") {
  const BatchLimits equal = batch_limits(config_of_batches(BatchSizing::kEqual));
  CHECK(equal.check_granted({0, 64}).is_ok());
  CHECK(equal.check_granted({63'936, 64}).is_ok());
  CHECK(equal.check_granted({63'937, 64}).message() ==
        "granted the samples from position 63937 on, expected [0, 64000)");
  CHECK(equal.check_granted({0, 128}).message() == "granted 128 samples, expected 64 to 64");
  CHECK(equal.check_granted({0, 63}).code() == StatusCode::kFailedPrecondition);
  CHECK(equal.check_counted({0, 64}, Metric{0.0, 0, 63}).is_ok());
  const BatchLimits by_speed = batch_limits(config_of_batches(BatchSizing::kBySpeed));
  CHECK(by_speed.check_granted({0, 8}).is_ok());
  CHECK(by_speed.check_granted({63'744, 256}).is_ok());
  CHECK(by_speed.check_granted({0, 264}).code() == StatusCode::kFailedPrecondition);
  CHECK(by_speed.check_granted({0, std::int64_t{1} << 32}).code() == StatusCode::kFailedPrecondition);
  CHECK(by_speed.check_granted({std::int64_t{1} << 60, 8}).code() == StatusCode::kFailedPrecondition);
}

TEST_CASE("rounds shared out by speed are of whole mini-batches") {
  RunConfig config = config_of_batches(BatchSizing::kEqual);
  config.train.local_steps = 10;
  config.train.has_inner_optimizer = true;
  config.train.local_balance = BatchSizing::kBySpeed;
  const BatchLimits limits = batch_limits(config);
  CHECK(limits.check_granted({0, 64}).is_ok());
  CHECK(limits.check_granted({640, 7 * 64}).is_ok());
  CHECK(limits.check_granted({0, 100}).message() == "granted 100 samples, expected a multiple of 64");
  CHECK(limits.check_granted({0, 41 * 64}).message() == "granted 2624 samples, expected 64 to 2560");
}

TEST_CASE("an all-reduce weighs by samples, but of stages, where a task has to count as granted") {
  RunConfig config = config_of_batches(BatchSizing::kEqual);
  config.exchange.kind = ExchangeKind::kAllreduce;
  CHECK(batch_limits(config).check_counted({0, 64}, Metric{0.0, 0, 63}).is_ok());
  config.pipeline.stages = 2;
  CHECK(batch_limits(config).check_counted({0, 64}, Metric{0.0, 0, 64}).is_ok());
  CHECK(batch_limits(config).check_counted({0, 64}, Metric{0.0, 0, 63}).message() ==
        "the task computed from 63 samples, expected 64 as granted (pipeline.stages; a PyTorch loader takes "
        "drop_last=True)");
}

// 1000 gradients, three of four workers a clock: 334 clocks, and each may be begun by all four.
TEST_CASE("what backup workers compute in vain has its place in the run, too") {
  RunConfig config = config_of_batches(BatchSizing::kEqual);
  config.sync.policy = PolicyKind::kBackup;
  config.sync.backup_workers = 1;
  CHECK(batch_limits(config).end == 334 * 4 * 64);
}

TEST_CASE("what is granted beyond the run ends the worker before its task sees it") {
  const BatchPart batch = GENERATE(BatchPart{0, 5}, BatchPart{0, 0}, BatchPart{997, 4});
  TrainFixture f;
  f.exchange.grant(grant_of_batch(batch));
  const Status status = f.run().status();
  CHECK(status.code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(status.message(), Catch::StartsWith("worker 0.0 at clock 0: granted"));
  CHECK(f.task.steps.empty());
  CHECK(f.exchange.requested.empty());
  CHECK(f.exchange.pushed.empty());
}

// The scripted task counts two, whatever it is given.
TEST_CASE(
    "by speed a task that counts other samples than were granted ends its worker, and nothing is applied") {
  TrainFixture f;
  f.batches.counted_for = "train.batch_balance: speed";
  f.task.on_backward = [](std::span<float>, const FinalFrom& final_from) { final_from(1); };
  f.exchange.grant(grant_of_batch({0, 2}));
  step::Grant other = grant_of_batch({2, 3});
  other.clock = Clock(1);
  f.exchange.grant(other);
  const Status status = f.run().status();
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK(status.message() ==
        "worker 0.0 at clock 1: the task computed from 2 samples, expected 3 as granted "
        "(train.batch_balance: speed)");
  CHECK(f.exchange.pushed.size() == 1);
  CHECK(f.exchange.reported.size() == 1);
  CHECK(f.exchange.withdrawn == std::vector<Clock>{Clock(1)});  // what had left
}

TEST_CASE("with equal sizes a task may count as it likes") {
  TrainFixture f;
  f.exchange.grant(grant_of_batch({0, 3}));
  f.exchange.finish();
  REQUIRE(f.run().is_ok());
  CHECK(f.exchange.pushed.at(0).samples == 2);
}

}  // namespace
}  // namespace paceline
