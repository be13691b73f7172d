// Whole runs whose nodes compute on GPUs, on the fake one: they end where those on CPUs do, with servers and with an
// all-reduce, in groups of batch norm, and in float16.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/process/local_cluster.h"
#include "tests/unit/training_fixture.h"
#include "worker/model/cuda/open_gpus.h"
#include "worker/network_task.h"

namespace paceline::test {
namespace {

RunConfig normalised(std::uint32_t nodes, std::uint32_t group, ExchangeKind exchange) {
  RunConfig config =
      with_policy(training_config(nodes, 1), PolicyKind::kBsp, ApplyMode::kVersioned, CombineMode::kMean);
  config.exchange.kind = exchange;
  config.exchange.on_loss = OnLoss::kStop;
  config.exchange.bucket_bytes = 512;
  config.train.optimizer.kind = OptimizerKind::kMomentum;
  config.train.batch_norm_group = group;
  config.train.layers = {{.kind = LayerKind::kConv, .out = 4, .kernel = 5, .stride = 2, .bias = false},
                         {.kind = LayerKind::kBatchNorm},
                         {.kind = LayerKind::kRelu},
                         {.kind = LayerKind::kGlobalAveragePool},
                         {.kind = LayerKind::kBatchNorm},
                         {.kind = LayerKind::kDense, .out = 10}};
  return config;
}

// `gpus`: of all nodes, which are threads of one process here; null: on the CPU.
testing::ClusterRun run(const RunConfig& config, const std::shared_ptr<Gpus>& gpus = nullptr) {
  auto ended = testing::run_cluster(config, [&](NodeId, const testing::StopNode&) {
    auto tasks = make_network_tasks_on(gpus, config);
    REQUIRE(tasks.is_ok());
    return std::move(tasks).value();
  });
  INFO(ended.status().message());
  REQUIRE(ended.is_ok());
  CHECK(ended->summary.status == "ok");
  return std::move(ended).value();
}

testing::ClusterRun run_on_gpus(RunConfig config) {
  config.train.device = Device::kCuda;
  config.data.on_device = OnDevice::kOff;  // which is a node's own
  fake_cuda::set_up({});
  auto ended = run(config, cuda::open_gpus({{}, config.train.precision}).value());
  CHECK(fake_cuda::mistakes() == std::vector<std::string>());
  CHECK(fake_cuda::alive() == 0);
  return ended;
}

double apart(const testing::ClusterRun& a, const testing::ClusterRun& b) {
  REQUIRE(a.model.parameters.size() == b.model.parameters.size());
  double most = 0.0;
  for (std::size_t i = 0; i < a.model.parameters.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(a.model.parameters[i]) -
                                   static_cast<double>(b.model.parameters[i])));
  }
  return most;
}

}  // namespace

TEST_CASE("nodes_on_gpus_end_where_those_on_cpus_do_with_groups_of_batch_norm_or_without") {
  const auto exchange = GENERATE(ExchangeKind::kServer, ExchangeKind::kAllreduce);
  const std::uint32_t group = GENERATE(1U, 2U);
  CAPTURE(static_cast<int>(exchange), group);
  const RunConfig config = normalised(4, group, exchange);
  const auto on_gpus = run_on_gpus(config);
  CHECK(apart(on_gpus, run(config)) < 1e-4);  // a gradient's 1e-6, after twenty steps with momentum
  CHECK(on_gpus.summary.iterations == config.train.total_iterations);
}

// Of two gradients the order makes no bits. A first step is made again until it does not overflow; of later ones that do, all
// workers leave theirs out.
TEST_CASE("an_all_reduce_of_gpus_in_float16_steps_as_servers_do_or_leaves_a_step_out_as_a_whole") {
  RunConfig summed = normalised(2, 1, ExchangeKind::kAllreduce);
  summed.train.on_nan = OnNan::kSkip;
  const auto twenty = [](RunConfig config) {
    config.train.precision = Precision::kFp16;
    return run_on_gpus(config);
  }(summed);
  CHECK(twenty.summary.final_version == Version(20));
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
  CHECK(apart(by_sums, run_on_gpus(served)) < 1e-6);
  CHECK(apart(by_sums, in_float32) > 0.0);
}

}  // namespace paceline::test
