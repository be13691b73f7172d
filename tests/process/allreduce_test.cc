// Runs whose nodes sum their gradients among themselves: they end where those with servers do, every node has the
// same bits at every clock, and a node that is lost is named by all.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/process/local_cluster.h"
#include "tests/unit/recorded_training.h"
#include "tests/unit/training_fixture.h"
#include "worker/network_task.h"

namespace paceline::test {
namespace {

using schedule::Algorithm;

RunConfig summing(Algorithm algorithm, std::uint32_t nodes, std::uint32_t threads = 1) {
  RunConfig config = with_policy(training_config(nodes, threads), PolicyKind::kBsp, ApplyMode::kVersioned,
                                 CombineMode::kMean);
  config.exchange.kind = ExchangeKind::kAllreduce;
  config.exchange.algorithm = algorithm;
  config.exchange.bucket_bytes = 512;
  config.train.optimizer.kind = OptimizerKind::kMomentum;
  config.train.optimizer.schedule.kind = ScheduleKind::kCosine;
  return config;
}

RunConfig with_servers(RunConfig config) {
  config.exchange = {};
  return config;
}

struct Outcome {
  testing::ClusterRun run;
  std::vector<const RecordingTasks*> nodes;
};

// `stop_at`: node 2 leaves in the middle of this clock.
testing::ClusterRun run(const RunConfig& config) {
  auto ended = testing::run_cluster(config, [&](NodeId, const testing::StopNode&) {
    auto tasks = make_network_tasks(config);
    REQUIRE(tasks.is_ok());
    return std::move(tasks).value();
  });
  INFO(ended.status().message());
  REQUIRE(ended.is_ok());
  return std::move(ended).value();
}

double furthest(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return most;
}

// What each node computes with, by node; one thread each.
class Records {
 public:
  explicit Records(std::uint32_t nodes) : tasks_(nodes) {}
  std::unique_ptr<TaskFactory> make(const RunConfig& config, NodeId node) {
    tasks_[node.value] = std::make_shared<std::vector<std::vector<float>>>();
    return std::make_unique<Recording>(config, tasks_[node.value]);
  }
  const std::vector<std::vector<float>>& of(std::size_t node) const { return *tasks_[node]; }

 private:
  using Kept = std::shared_ptr<std::vector<std::vector<float>>>;
  // Outlived by what it has recorded.
  class Recording final : public TaskFactory {
   public:
    Recording(const RunConfig& config, Kept kept) : tasks_(config), kept_(std::move(kept)) {}
    ~Recording() override {
      for (const Read& read : tasks_.reads()) kept_->push_back(read.parameters);
    }
    const Layout& layout() const override { return tasks_.layout(); }
    void initialize(std::span<float> parameters) const override { tasks_.initialize(parameters); }
    Result<std::unique_ptr<Task>> make_trainer(WorkerId worker) override {
      return tasks_.make_trainer(worker);
    }
    Result<std::unique_ptr<Task>> make_evaluator() override { return tasks_.make_evaluator(); }

   private:
    RecordingTasks tasks_;
    Kept kept_;
  };
  std::vector<Kept> tasks_;
};

}  // namespace

TEST_CASE("an_all_reduce_ends_where_servers_do_with_the_same_bits_on_every_node_and_again") {
  const auto [algorithm, nodes] = GENERATE(table<Algorithm, std::uint32_t>({{Algorithm::kRing, 3U},
                                                                            {Algorithm::kHalvingDoubling, 4U},
                                                                            {Algorithm::kBinaryBlocks, 3U},
                                                                            {Algorithm::kTorus, 4U},
                                                                            {Algorithm::kDirect, 3U},
                                                                            {Algorithm::kTree, 3U}}));
  const RunConfig config = summing(algorithm, nodes);
  CAPTURE(static_cast<int>(algorithm), nodes);
  Records records(nodes);
  const auto ended = testing::run_cluster(
      config, [&](NodeId node, const testing::StopNode&) { return records.make(config, node); });
  INFO(ended.status().message());
  REQUIRE(ended.is_ok());
  CHECK(ended->summary.status == "ok");
  CHECK(ended->summary.iterations == config.train.total_iterations);
  REQUIRE(records.of(0).size() == 20);
  for (std::size_t node = 1; node < nodes; ++node) {
    REQUIRE(records.of(node).size() == 20);
    for (std::size_t clock = 0; clock < 20; ++clock) {
      REQUIRE(same_floats(records.of(node)[clock], records.of(0)[clock]));
    }
  }
  CHECK(furthest(ended->model.parameters, run(with_servers(config)).model.parameters) < 1e-6);
  CHECK(same_floats(ended->model.parameters, run(config).model.parameters));
}

TEST_CASE("nodes_of_several_threads_sum_theirs_first") {
  const RunConfig config = summing(Algorithm::kAuto, 2, 2);
  CHECK(furthest(run(config).model.parameters, run(with_servers(config)).model.parameters) < 1e-6);
}

TEST_CASE("nodes_evaluate_what_they_have_at_the_versions_asked_for") {
  RunConfig config = summing(Algorithm::kRing, 2);
  config.train.eval_every_clocks = 8;
  const auto summed = run(config);
  const auto served = run(with_servers(config));
  CHECK(summed.summary.final_test_accuracy == served.summary.final_test_accuracy);
  CHECK(summed.summary.status == "ok");
}

TEST_CASE("a_node_that_is_lost_is_named_by_all_and_none_hangs") {
  const auto algorithm = GENERATE(Algorithm::kRing, Algorithm::kBinaryBlocks, Algorithm::kTorus);
  const RunConfig config = summing(algorithm, 4);
  std::vector<Status> nodes;
  struct Leaving final : Task {
    Leaving(std::unique_ptr<Task> inner, std::function<void()> at_seven)
        : task(std::move(inner)), leave(std::move(at_seven)) {}
    Status load(const Step& step) override {
      clock = step.clock;
      return task->load(step);
    }
    Result<Metric> compute(std::span<const float> p, std::span<float> g, const FinalFrom& f) override {
      if (clock == Clock(7)) leave();
      return task->compute(p, g, f);
    }
    Result<Metric> evaluate(std::span<const float> p) override { return task->evaluate(p); }
    std::unique_ptr<Task> task;
    std::function<void()> leave;
    Clock clock;
  };
  struct Factory final : TaskFactory {
    Factory(const RunConfig& run, std::function<void()> at_seven) : tasks(run), leave(std::move(at_seven)) {}
    const Layout& layout() const override { return tasks.layout(); }
    void initialize(std::span<float> parameters) const override { tasks.initialize(parameters); }
    Result<std::unique_ptr<Task>> make_trainer(WorkerId worker) override {
      PACELINE_ASSIGN_OR_RETURN(auto task, tasks.make_trainer(worker));
      return std::unique_ptr<Task>(std::make_unique<Leaving>(std::move(task), leave));
    }
    Result<std::unique_ptr<Task>> make_evaluator() override { return tasks.make_evaluator(); }
    RecordingTasks tasks;
    std::function<void()> leave;
  };
  const auto ended = testing::run_cluster(
      config, [&](NodeId node, const testing::StopNode& stop) -> std::unique_ptr<TaskFactory> {
        std::function<void()> leaves = [] {};
        if (node == NodeId(2)) leaves = [stop] { stop(NodeId(2), "it has enough"); };
        return std::make_unique<Factory>(config, leaves);
      });
  // There is no model, and why says the authority.
  REQUIRE_FALSE(ended.is_ok());
  CHECK(ended.status().message().find("node 2") != std::string::npos);
}

}  // namespace paceline::test
