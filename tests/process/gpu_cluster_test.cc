// Whole runs whose nodes compute on GPUs, on the fake one: they end where those on CPUs do, with servers and with an
// all-reduce, in groups of batch norm, and in float16.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
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

// A node's tasks, whose gradient of one clock overflows.
class Overflowing final : public TaskFactory {
 public:
  Overflowing(std::unique_ptr<TaskFactory> tasks, Clock at) : tasks_(std::move(tasks)), at_(at) {}
  const Layout& layout() const override { return tasks_->layout(); }
  std::uint64_t data_fingerprint() const override { return tasks_->data_fingerprint(); }
  void initialize(std::span<float> parameters) const override { tasks_->initialize(parameters); }
  Result<std::unique_ptr<Task>> make_trainer(WorkerId worker) override {
    PACELINE_ASSIGN_OR_RETURN(auto task, tasks_->make_trainer(worker));
    return std::unique_ptr<Task>(std::make_unique<Each>(std::move(task), at_));
  }
  std::string computes_on(std::uint32_t thread) const override { return tasks_->computes_on(thread); }
  std::shared_ptr<std::pmr::memory_resource> gradient_memory(
      std::shared_ptr<std::pmr::memory_resource> upstream) override {
    return tasks_->gradient_memory(std::move(upstream));
  }
  std::shared_ptr<std::pmr::memory_resource> parameter_memory() override {
    return tasks_->parameter_memory();
  }
  Result<std::shared_ptr<void>> pin(std::span<const std::byte> pages) override { return tasks_->pin(pages); }
  Result<std::unique_ptr<Task>> make_evaluator() override { return tasks_->make_evaluator(); }
  void stop_evaluating() override { tasks_->stop_evaluating(); }

 private:
  class Each final : public Task {
   public:
    Each(std::unique_ptr<Task> task, Clock at) : task_(std::move(task)), at_(at) {}
    Result<std::unique_ptr<CacheVectors>> make_cache_vectors(const OptimizerSection& optimizer,
                                                             std::int64_t floats) override {
      return task_->make_cache_vectors(optimizer, floats);
    }
    Status load(const Step& step) override {
      clock_ = step.clock;
      return task_->load(step);
    }
    Result<Metric> compute(std::span<const float> parameters, std::span<float> gradient,
                           const FinalFrom& final_from) override {
      if (clock_ != at_) return task_->compute(parameters, gradient, final_from);
      auto metric = task_->compute(parameters, gradient, [](std::int64_t) {});
      gradient.back() = std::numeric_limits<float>::infinity();
      return metric;
    }
    LossScale loss_scale() const override { return task_->loss_scale(); }
    Result<Metric> evaluate(std::span<const float> parameters) override {
      return task_->evaluate(parameters);
    }

   private:
    const std::unique_ptr<Task> task_;
    const Clock at_;
    Clock clock_;
  };
  const std::unique_ptr<TaskFactory> tasks_;
  const Clock at_;
};

// `gpus`: of all nodes, which are threads of one process here; null: on the CPU. `overflows`: of node 1.
testing::ClusterRun run(const RunConfig& config, const std::shared_ptr<Gpus>& gpus = nullptr,
                        std::optional<Clock> overflows = std::nullopt) {
  auto ended = testing::run_cluster(
      config, [&](NodeId node, const testing::StopNode&) -> std::unique_ptr<TaskFactory> {
        auto tasks = make_network_tasks_on(gpus, config);
        REQUIRE(tasks.is_ok());
        if (!overflows || node != NodeId(1)) return std::move(tasks).value();
        return std::make_unique<Overflowing>(std::move(tasks).value(), *overflows);
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
  struct Case {
    ExchangeKind exchange;
    std::uint32_t group;
    OptimizerKind optimizer;
    double lr;
    std::int64_t accumulate = 1;
  };
  const auto [exchange, group, optimizer, lr, accumulate] =
      GENERATE(Case{ExchangeKind::kServer, 1, OptimizerKind::kLars, 5.0, 2},
               Case{ExchangeKind::kServer, 2, OptimizerKind::kMomentum, 0.05},
               Case{ExchangeKind::kAllreduce, 1, OptimizerKind::kLamb, 0.01},
               Case{ExchangeKind::kAllreduce, 2, OptimizerKind::kMomentum, 0.05});
  CAPTURE(static_cast<int>(exchange), group, static_cast<int>(optimizer));
  RunConfig config = normalised(4, group, exchange);
  config.train.optimizer.kind = optimizer;
  config.train.optimizer.lr = lr;
  config.train.accumulate = accumulate;
  const auto on_gpus = run_on_gpus(config);
  CHECK(apart(on_gpus, run(config)) < 1e-4);  // a gradient's 1e-6, after twenty steps with momentum
  CHECK(on_gpus.summary.iterations == config.train.total_iterations);
}

// Of two gradients the order makes no bits. A first step is made again until it does not overflow; of a later one that does,
// as that of clock 7, all workers leave theirs out.
TEST_CASE("an_all_reduce_of_gpus_in_float16_steps_as_servers_do_or_leaves_a_step_out_as_a_whole") {
  RunConfig summed = normalised(2, 1, ExchangeKind::kAllreduce);
  summed.train.on_nan = OnNan::kSkip;
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
  CHECK(apart(by_sums, run_on_gpus(served)) < 1e-6);
  CHECK(apart(by_sums, in_float32) > 0.0);
}

}  // namespace paceline::test
