// Balanced batches over real sockets: emulated nodes of different speed, the built-in network, its loader and
// its back ends. What is checked holds on any machine: which samples were computed from, and that the slow
// node got fewer.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/process/local_cluster.h"
#include "tests/unit/temp_folder.h"
#include "worker/data/synthetic.h"
#include "worker/network_task.h"

namespace paceline::testing {
namespace {

constexpr std::int64_t kClocks = 40;
constexpr std::int64_t kEqualSize = 64;

// What every worker computed from.
class Batches {
 public:
  void add(const Step& step, const Metric& metric) {
    const std::lock_guard lock(mutex_);
    if (metric.samples != step.batch.samples) ++wrong_;
    parts_[{step.clock, step.batch.position}] = {step.worker, step.batch.samples};
  }
  // Gradients of other samples than were granted.
  std::int64_t wrong() const { return wrong_; }
  // Once the run is over: by clock and position.
  const std::map<std::pair<Clock, std::int64_t>, std::pair<WorkerId, std::int64_t>>& parts() const {
    return parts_;
  }

 private:
  std::mutex mutex_;
  std::int64_t wrong_ = 0;
  std::map<std::pair<Clock, std::int64_t>, std::pair<WorkerId, std::int64_t>> parts_;
};

class NotingTask final : public Task {
 public:
  NotingTask(std::unique_ptr<Task> task, Batches& batches) : task_(std::move(task)), batches_(batches) {}
  Status load(const Step& step) override {
    step_ = step;
    return task_->load(step);
  }
  Result<Metric> compute(std::span<const float> parameters, std::span<float> gradient,
                         const FinalFrom& final_from) override {
    PACELINE_ASSIGN_OR_RETURN(const Metric metric, task_->compute(parameters, gradient, final_from));
    batches_.add(step_, metric);
    return metric;
  }
  Result<Metric> evaluate(std::span<const float> parameters) override { return task_->evaluate(parameters); }

 private:
  const std::unique_ptr<Task> task_;
  Batches& batches_;
  Step step_;
};

class NotingTasks final : public TaskFactory {
 public:
  NotingTasks(std::unique_ptr<TaskFactory> tasks, Batches& batches)
      : tasks_(std::move(tasks)), batches_(batches) {}
  const Layout& layout() const override { return tasks_->layout(); }
  std::uint64_t data_fingerprint() const override { return tasks_->data_fingerprint(); }
  void initialize(std::span<float> parameters) const override { tasks_->initialize(parameters); }
  Result<std::unique_ptr<Task>> make_trainer(WorkerId worker) override {
    PACELINE_ASSIGN_OR_RETURN(auto task, tasks_->make_trainer(worker));
    return std::unique_ptr<Task>(std::make_unique<NotingTask>(std::move(task), batches_));
  }
  Result<std::unique_ptr<Task>> make_evaluator() override { return tasks_->make_evaluator(); }

 private:
  const std::unique_ptr<TaskFactory> tasks_;
  Batches& batches_;
};

RunConfig emulated_config(const std::string& data) {
  RunConfig config;
  config.run.seed = 5;
  config.cluster.nodes = 4;
  config.cluster.shards = 2;
  config.sync.policy = PolicyKind::kSsp;
  config.sync.threshold = 3;
  config.sync.combine = CombineMode::kMean;
  config.train.backend = Backend::kOnednn;
  config.train.model = "layers";
  config.train.layers = {{LayerKind::kPool, 0, 4, 4}, {LayerKind::kFlatten}, {LayerKind::kDense, 10}};
  config.train.optimizer.kind = OptimizerKind::kSgd;
  config.train.optimizer.lr = 0.05;
  config.train.batch_size = kEqualSize;
  config.train.batch_balance = BatchSizing::kBySpeed;
  config.train.total_iterations = kClocks * 4;
  config.data.path = data;
  config.emulate.base_step = std::chrono::milliseconds(50);
  config.emulate.slowdown = {1, 1, 1.3, 1.6};
  return config;
}

}  // namespace

TEST_CASE("the_slow_node_gets_smaller_mini_batches_and_every_clock_all_of_its_samples") {
  const TempFolder folder;
  SyntheticOptions options;
  options.out = folder.path() / "data";
  options.train_samples = 1050;
  options.test_samples = 10;
  REQUIRE(write_synthetic(options).is_ok());
  const RunConfig config = emulated_config((folder.path() / "data").string());
  Batches batches;
  // Connections that break change nothing of it.
  const std::optional<Breaks> breaks = GENERATE(std::optional<Breaks>(), Breaks{5, 10, 1000, 40'000});
  const auto run = run_cluster(
      config,
      [&](NodeId, const StopNode&) {
        auto tasks = make_network_tasks(config);
        REQUIRE(tasks.is_ok());
        return std::make_unique<NotingTasks>(std::move(tasks).value(), batches);
      },
      {}, {}, {}, breaks);
  INFO(run.status().message());
  REQUIRE(run.is_ok());
  INFO(run->summary.reason);
  // A machine that is too slow for what it emulates marks the run invalid; its sizes are as good.
  CHECK((run->summary.status == "ok" || run->summary.overruns > 0));
  CHECK(run->summary.iterations == config.train.total_iterations);
  CHECK(run->summary.final_version == Version(kClocks));

  CHECK(batches.wrong() == 0);
  REQUIRE(std::ssize(batches.parts()) == config.train.total_iterations);
  std::int64_t next = 0;
  std::map<WorkerId, std::int64_t> last;  // sizes
  for (const auto& [place, part] : batches.parts()) {
    CHECK(place.second == next);  // in the order of clocks, no gap and nothing twice
    CHECK(place.second / (4 * kEqualSize) == place.first.value);
    CHECK(part.second % 8 == 0);
    next += part.second;
    last[part.first] = part.second;
  }
  CHECK(next == config.train.total_iterations * kEqualSize);
  CHECK(last[WorkerId(3, 0)] < kEqualSize);
  CHECK(last[WorkerId(3, 0)] < last[WorkerId(0, 0)]);
  REQUIRE(run->summary.batch_sizes);
  for (const auto& [worker, size] : last) {
    const std::size_t rank = config.cluster.cluster().rank_of(worker).value;
    CHECK(run->summary.batch_sizes->last[rank] == size);
    CHECK(run->summary.batch_sizes->smallest[rank] <= std::min(size, kEqualSize));
    CHECK(run->summary.batch_sizes->largest[rank] >= std::max(size, kEqualSize));
  }
}

// Of four local steps the node that takes four times as long has time for one. Which samples those are is the same as
// if it had taken all.
TEST_CASE("a_round_that_ends_by_time_has_the_first_mini_batches_of_its_own_and_one_at_least") {
  const TempFolder folder;
  SyntheticOptions options;
  options.out = folder.path() / "data";
  options.train_samples = 1050;
  options.test_samples = 10;
  REQUIRE(write_synthetic(options).is_ok());
  RunConfig config = emulated_config((folder.path() / "data").string());
  constexpr std::int64_t kRounds = 8;
  constexpr std::int64_t kSteps = 4;
  config.train.batch_balance = BatchSizing::kEqual;
  config.train.batch_size = 16;
  config.train.local_steps = kSteps;
  config.train.local_time = std::chrono::milliseconds(250);
  config.train.has_inner_optimizer = true;
  config.train.inner_optimizer = config.train.optimizer;
  config.train.optimizer.lr = 1.0;
  config.train.total_iterations = kRounds * 4 * kSteps;
  config.emulate.slowdown = {1, 1, 1, 4};
  Batches batches;
  const auto run = run_cluster(config, [&](NodeId, const StopNode&) {
    auto tasks = make_network_tasks(config);
    REQUIRE(tasks.is_ok());
    return std::make_unique<NotingTasks>(std::move(tasks).value(), batches);
  });
  INFO(run.status().message());
  REQUIRE(run.is_ok());
  INFO(run->summary.reason);
  const bool on_time =
      run->summary.overruns == 0;  // else the machine was busy, and a step took longer than it was to
  CHECK((run->summary.status == "ok" || !on_time));
  CHECK(run->summary.iterations == config.train.total_iterations);
  CHECK(run->summary.final_version == Version(kRounds));
  CHECK(batches.wrong() == 0);
  std::map<std::pair<Clock, WorkerId>, std::int64_t> taken;
  std::map<WorkerId, std::int64_t> all;
  for (const auto& [place, part] : batches.parts()) {
    const std::int64_t round = place.first.value * 4 + config.cluster.cluster().rank_of(part.first).value;
    std::int64_t& steps = taken[{place.first, part.first}];
    CHECK(place.second == (round * kSteps + steps) * config.train.batch_size);
    ++steps;
    ++all[part.first];
  }
  CHECK(std::ssize(taken) == kRounds * 4);
  const auto short_rounds = std::count_if(taken.begin(), taken.end(), [](const auto& round) {
    return round.first.second == WorkerId(3, 0) && round.second <= 2;
  });
  if (on_time) CHECK(short_rounds > kRounds / 2);
  CHECK(all[WorkerId(3, 0)] < all[WorkerId(0, 0)]);
  CHECK(all[WorkerId(3, 0)] < kRounds * kSteps);
}

}  // namespace paceline::testing
