// Backup workers over real sockets: random runs with jitter and a straggler, in which every read of the
// counting model must hold the N gradients of each clock before, the final model must hold the gradients that
// the summary says were applied and no other, and every gradient that was computed is counted once, as
// applied or as dropped.
#include <atomic>
#include <catch2/catch.hpp>
#include <mutex>
#include <string>
#include <vector>

#include "tests/process/counting_task.h"
#include "tests/process/local_cluster.h"
#include "tests/process/random_run.h"

namespace paceline::testing {
namespace {

constexpr std::uint64_t kBackupRuns = 40;

struct BackupRun {
  RunConfig config;
  std::int64_t n = 0;  // gradients of a clock
  std::int64_t rows = 0;
};

BackupRun backup_run(std::uint64_t seed) {
  BackupRun run;
  RunConfig& config = run.config;
  CounterRandom random(seed, Stream::kTest, 80);
  config.run.seed = seed;
  config.cluster.nodes = 1 + static_cast<std::uint32_t>(random.next_below(3));
  config.cluster.threads_per_node = 2 + static_cast<std::uint32_t>(random.next_below(2));
  config.cluster.shards = 1 + static_cast<std::uint32_t>(random.next_below(3));
  const auto workers = static_cast<std::int64_t>(config.cluster.cluster().workers());
  config.sync.policy = PolicyKind::kBackup;
  config.sync.backup_workers = static_cast<std::int64_t>(random.next_below(workers));
  run.n = workers - config.sync.backup_workers;
  config.sync.combine = static_cast<CombineMode>(random.next_below(2));
  const bool mean = config.sync.combine == CombineMode::kMean;
  config.train.share = !mean && random.next_below(2) == 0 ? Share::kPool : Share::kEven;
  // A mean counts one for each gradient where there are N of them, as at a last clock that is a whole one.
  config.train.total_iterations = run.n * 30 + (mean ? 0 : static_cast<std::int64_t>(random.next_below(20)));
  config.train.batch_size = 10;
  config.train.optimizer = counting_optimizer(random, config.sync.combine);
  run.rows = random_rows(seed, config);
  return run;
}

// What is wrong with `run`, as sentences.
std::vector<std::string> violations_of(const BackupRun& run, std::uint64_t seed, bool one_leaves) {
  const RunConfig& config = run.config;
  const Cluster cluster = config.cluster.cluster();
  std::vector<std::string> wrong;
  std::mutex mutex;
  const auto report = [&](const std::string& what) {
    const std::lock_guard lock(mutex);
    if (wrong.size() < 10) wrong.push_back(describe(seed, config) + ": " + what);
  };
  std::vector<std::int64_t> last_clock(cluster.workers(), -1);
  std::atomic<std::int64_t> computed{0};
  CountingOptions counting;
  counting.cluster = cluster;
  counting.blocks = run.rows;
  counting.seed = seed;
  counting.in_parts = leaves_in_parts(seed);
  if (config.sync.combine == CombineMode::kMean) counting.gradient_scale = static_cast<float>(run.n);
  counting.on_read = [&](const Read& read) {
    ++computed;
    const Step& step = read.step;
    const std::string who = "worker " + to_string(step.worker) + " at clock " + to_string(step.clock);
    std::int64_t& last = last_clock[cluster.rank_of(step.worker).value];
    if (step.clock.value <= last) report(who + " behind clock " + std::to_string(last));
    last = step.clock.value;
    if (step.version.value < step.clock.value)
      report(who + ": computes with version " + to_string(step.version));
    if (one_leaves || config.train.share == Share::kPool) return;  // clocks may have fewer than N
    for (std::size_t row = 0; row < read.counts.size(); row += cluster.workers()) {
      double sum = 0.0;
      for (std::uint32_t w = 0; w < cluster.workers(); ++w) sum += read.counts[row + w];
      const std::int64_t gradients = std::llround(sum);
      // Whose clock has closed may read newer slices, and of several versions.
      const bool late = gradients > run.n * step.clock.value;
      if (gradients < run.n * step.clock.value || (!late && step.version.value != step.clock.value)) {
        report(who + ": " + std::to_string(sum) + " gradients, expected clocks of " + std::to_string(run.n));
      }
    }
  };
  const auto result = run_cluster(config, [&](NodeId, const StopNode& stop) {
    CountingOptions options = counting;
    options.before_compute = [&, stop](const Step& step) {
      const std::uint32_t rank = cluster.rank_of(step.worker).value;
      CounterRandom jitter(seed, Stream::kTest, 90 + rank, static_cast<std::uint64_t>(step.clock.value));
      spin_for(std::chrono::microseconds(jitter.next_below(rank == seed % cluster.workers() ? 1500 : 200)));
      if (one_leaves && step.worker == WorkerId(cluster.nodes - 1, 0) && step.clock >= Clock(4)) {
        stop(step.worker.node, "the test says so");
      }
      return Status::ok();
    };
    return std::make_unique<CountingFactory>(options);
  });
  if (!result) return {describe(seed, config) + ": " + result.status().message()};
  const RunSummary& summary = result->summary;
  const std::vector<float>& model = result->model.parameters;
  double applied = 0.0;
  for (std::size_t i = 0; i < model.size(); ++i) {
    if (i < cluster.workers()) applied += model[i];
    if (std::fabs(model[i] - model[i % cluster.workers()]) > 1e-3F)
      report("a push is not on all shards or none");
  }
  if (summary.status != "ok") report("it ended as " + summary.status + ": " + summary.reason);
  if (summary.max_grant_gap.value != 0 || summary.max_clock_gap.value > 1) report("somebody led");
  if (one_leaves) return wrong;
  if (std::fabs(applied - static_cast<double>(summary.iterations)) > 0.01) {
    report(std::to_string(applied) + " gradients in the model, " + std::to_string(summary.iterations) +
           " said");
  }
  if (summary.iterations != config.train.total_iterations) {
    report(std::to_string(summary.iterations) + " iterations applied");
  }
  if (summary.iterations + summary.dropped != computed) {
    report(std::to_string(computed) + " computed, but " + std::to_string(summary.dropped) + " dropped");
  }
  if (config.sync.backup_workers == 0 && summary.dropped != 0) report("dropped without a backup");
  return wrong;
}

TEST_CASE("a_clock_takes_the_first_n_gradients_and_every_other_one_is_dropped_on_all_shards") {
  for (std::uint64_t seed = 1; seed <= kBackupRuns; ++seed) {
    CHECK(violations_of(backup_run(seed), seed, /*one_leaves=*/false) == std::vector<std::string>{});
  }
}

TEST_CASE("a_node_that_leaves_leaves_the_others_going_whether_n_of_them_are_left_or_not") {
  for (std::uint64_t seed = 1; seed <= kBackupRuns; ++seed) {
    const BackupRun run = backup_run(seed);
    if (run.config.cluster.nodes == 1) continue;
    CHECK(violations_of(run, seed, /*one_leaves=*/true) == std::vector<std::string>{});
  }
}

}  // namespace
}  // namespace paceline::testing
