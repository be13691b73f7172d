// Whole runs whose nodes compute on GPUs, on the fake one: they end where those on CPUs do, with servers and with an
// all-reduce, in groups of batch norm, and in float16.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/process/network_run.h"
#include "tests/unit/training_fixture.h"
#include "tests/unit/wrapped_tasks.h"
#include "worker/model/cuda/open_gpus.h"

namespace paceline::test {
namespace {

RunConfig normalised(std::uint32_t nodes, std::uint32_t group, ExchangeKind exchange) {
  RunConfig config =
      with_policy(training_config(nodes, 1), PolicyKind::kBsp, ApplyMode::kVersioned, CombineMode::kMean);
  config.exchange.kind = exchange;
  config.exchange.on_loss = OnLoss::kStop;
  config.exchange.bucket_bytes = 512;
  return with_batch_norms(std::move(config), group);
}

// Whose gradient of one clock overflows.
class Overflowing final : public testing::WrappedTask {
 public:
  Overflowing(std::unique_ptr<Task> task, Clock at) : WrappedTask(std::move(task)), at_(at) {}
  Status load(const Step& step) override {
    clock_ = step.clock;
    return WrappedTask::load(step);
  }
  Result<Metric> compute(std::span<const float> parameters, std::span<float> gradient,
                         const FinalFrom& final_from) override {
    if (clock_ != at_) return WrappedTask::compute(parameters, gradient, final_from);
    auto metric = WrappedTask::compute(parameters, gradient, whole_at_the_end);
    gradient.back() = std::numeric_limits<float>::infinity();
    return metric;
  }

 private:
  const Clock at_;
  Clock clock_;
};

// `gpus`: of all nodes, which are threads of one process here; null: on the CPU. `overflows`: of node 1.
testing::ClusterRun run(const RunConfig& config, const std::shared_ptr<Gpus>& gpus = nullptr,
                        std::optional<Clock> overflows = std::nullopt) {
  auto ended = testing::run_cluster(
      config, [&](NodeId node, const testing::StopNode&) -> std::unique_ptr<TaskFactory> {
        auto tasks = make_network_tasks_on(gpus, config);
        REQUIRE(tasks.is_ok());
        if (!overflows || node != NodeId(1)) return std::move(tasks).value();
        return std::make_unique<testing::WrappedTasks>(
            std::move(tasks).value(), [at = *overflows](std::unique_ptr<Task> task, WorkerId) {
              return std::make_unique<Overflowing>(std::move(task), at);
            });
      });
  INFO(ended.status().message());
  REQUIRE(ended.is_ok());
  CHECK(ended->summary.status == "ok");
  return std::move(ended).value();
}

testing::ClusterRun run_on_gpus(RunConfig config, std::optional<Clock> overflows = std::nullopt) {
  config.train.device = Device::kCuda;
  config.data.on_device = OnDevice::kOff;  // which is a node's own
  fake_cuda::set_up({});
  auto ended = run(config, cuda::open_gpus({{}, config.train.precision}).value(), overflows);
  CHECK(fake_cuda::mistakes() == std::vector<std::string>());
  CHECK(fake_cuda::alive() == 0);
  return ended;
}

}  // namespace

TEST_CASE("nodes_on_gpus_end_where_those_on_cpus_do_with_groups_of_batch_norm_or_without") {
  struct Case {
    ExchangeKind exchange;
    std::uint32_t group;
    OptimizerKind optimizer;
    double lr;
    std::int64_t accumulate = 1;
  };
  const auto [exchange, group, optimizer, lr, accumulate] =
      GENERATE(Case{ExchangeKind::kServer, 1, OptimizerKind::kLars, 0.05},
               Case{ExchangeKind::kServer, 1, OptimizerKind::kMomentum, 0.05, 2},
               Case{ExchangeKind::kServer, 2, OptimizerKind::kMomentum, 0.05},
               Case{ExchangeKind::kAllreduce, 1, OptimizerKind::kLamb, 0.01},
               Case{ExchangeKind::kAllreduce, 2, OptimizerKind::kMomentum, 0.05});
  CAPTURE(static_cast<int>(exchange), group, static_cast<int>(optimizer), accumulate);
  RunConfig config = normalised(4, group, exchange);
  config.train.optimizer.kind = optimizer;
  config.train.optimizer.lr = lr;
  config.train.optimizer.trust_coefficient = 0.1;
  config.train.accumulate = accumulate;
  config.train.batch_size *= accumulate;  // so that norms measure as many samples
  const auto on_gpus = run_on_gpus(config);
  CHECK(testing::apart(on_gpus.model.parameters, run(config).model.parameters) <
        1e-4);  // a gradient's 1e-6, after twenty steps with momentum
  CHECK(on_gpus.summary.iterations == config.train.total_iterations);
}

// Of two gradients the order makes no bits. A first step is made again until it does not overflow; of a later one that
// does, as that of clock 7, all workers leave theirs out.
TEST_CASE("an_all_reduce_of_gpus_in_float16_steps_as_servers_do_or_leaves_a_step_out_as_a_whole") {
  RunConfig summed = normalised(2, 1, ExchangeKind::kAllreduce);
  summed.train.on_nan = OnNan::kSkip;
  summed.train.accumulate = GENERATE(1, 2);
  summed.train.batch_size *= summed.train.accumulate;
  const auto twenty = [](RunConfig config) {
    config.train.precision = Precision::kFp16;
    return run_on_gpus(config, Clock(7));
  }(summed);
  CHECK(twenty.summary.final_version == Version(20));
  CHECK(twenty.summary.skipped > 0);
  CHECK(twenty.summary.skipped % 2 == 0);
  CHECK(twenty.summary.iterations + twenty.summary.skipped == summed.train.total_iterations);
  for (const float parameter : twenty.model.parameters) CHECK(std::isfinite(parameter));

  summed.train.total_iterations = 2;
  const auto in_float32 = run_on_gpus(summed);
  summed.train.precision = Precision::kFp16;
  RunConfig served = summed;
  served.exchange.kind = ExchangeKind::kServer;
  const auto by_sums = run_on_gpus(summed);
  CHECK(by_sums.summary.skipped == 0);
  CHECK(testing::apart(by_sums.model.parameters, run_on_gpus(served).model.parameters) < 1e-6);
  CHECK(testing::apart(by_sums.model.parameters, in_float32.model.parameters) > 0.0);
}

}  // namespace paceline::test
