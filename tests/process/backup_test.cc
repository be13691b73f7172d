// Backup workers over real sockets: random runs with jitter and a straggler, in which every read of the
// counting model must hold the N gradients of each clock before, the final model must hold the gradients that
// the summary says were applied and no other, and every gradient that was computed is counted once, as
// applied or as dropped. Also where a node leaves, or is a process that is killed: then what it pushed counts
// on all shards or on none.
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tests/process/counting_task.h"
#include "tests/process/crash_run.h"
#include "tests/process/local_cluster.h"
#include "tests/process/other_process.h"
#include "tests/process/schedules.h"
#include "tests/unit/temp_folder.h"

namespace paceline::testing {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kBackupRuns = 10;
#elif defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kBackupRuns = 20;
#else
constexpr std::uint64_t kBackupRuns = 40;
#endif
constexpr int kAtATime = 4;

enum class Goes { kNobody, kIsSent, kKilled };

using Report = std::function<void(const std::string& what)>;

// The run is over, and the workers here have computed so many gradients, or rounds.
void check_end(const RunConfig& config, Goes goes, const ClusterRun& run, std::int64_t computed,
               const Report& report) {
  const std::uint32_t workers = config.cluster.cluster().workers();
  const RunSummary& summary = run.summary;
  const std::vector<float>& model = run.model.parameters;
  const std::int64_t steps = config.train.local_steps;
  double applied = 0.0;
  for (std::size_t i = 0; i < model.size(); ++i) {
    if (i < workers) applied += model[i];
    if (std::fabs(model[i] - model[i % workers]) > 1e-3F) report("a push is not on all shards or none");
  }
  if (summary.status != "ok") report("it ended as " + summary.status + ": " + summary.reason);
  if (summary.max_grant_gap.value != 0 || summary.max_clock_gap.value > 1) report("somebody led");
  for (const Status& server : run.servers) {
    if (!server) report("a server: " + server.message());
  }
  // A mean counts a clock with fewer than N as N.
  const bool counted = goes == Goes::kNobody || config.sync.combine == CombineMode::kEach;
  if (counted && std::fabs(applied - static_cast<double>(summary.iterations / steps)) > 0.01) {
    report(std::to_string(applied) + " gradients in the model, " +
           std::to_string(summary.iterations / steps) + " said");
  }
  if (summary.iterations > config.train.total_iterations) report("more is applied than there is");
  if (goes != Goes::kNobody) return;
  if (summary.iterations != config.train.total_iterations) {
    report(std::to_string(summary.iterations) + " iterations applied");
  }
  if (summary.iterations + summary.dropped != computed * steps) {
    report(std::to_string(computed) + " computed, but " + std::to_string(summary.dropped) + " dropped");
  }
  if (config.sync.backup_workers == 0 && summary.dropped != 0) report("dropped without a backup");
}

// Runs `run`; what is wrong with it, as sentences.
std::vector<std::string> violations_of(const CrashRun& run, std::uint64_t seed, Goes goes,
                                       std::atomic<std::int64_t>* lost = nullptr,
                                       const std::optional<Breaks>& breaks = {}) {
  const RunConfig& config = run.config;
  const Cluster cluster = config.cluster.cluster();
  std::vector<std::string> wrong;
  std::mutex mutex;
  const Report report = [&](const std::string& what) {
    const std::lock_guard lock(mutex);
    if (wrong.size() < 10) wrong.push_back(describe(seed, config) + ": " + what);
  };
  std::vector<std::int64_t> last_clock(cluster.workers(), -1);
  std::atomic<std::int64_t> computed{0};
  const std::int64_t n = run.per_clock;
  CountingOptions counting = counting_options(run, seed);
  counting.on_read = [&](const Read& read) {
    ++computed;
    const Step& step = read.step;
    const std::string who = "worker " + to_string(step.worker) + " at clock " + to_string(step.clock);
    std::int64_t& last = last_clock[cluster.rank_of(step.worker).value];
    if (step.clock.value <= last) report(who + " after clock " + std::to_string(last));
    last = step.clock.value;
    if (step.version.value < step.clock.value)
      report(who + ": computes with version " + to_string(step.version));
    if (goes != Goes::kNobody || config.train.share == Share::kPool) return;  // clocks may have fewer than N
    for (std::size_t row = 0; row < read.counts.size(); row += cluster.workers()) {
      double sum = 0.0;
      for (std::uint32_t w = 0; w < cluster.workers(); ++w) sum += read.counts[row + w];
      const std::int64_t gradients = std::llround(sum);
      // Whose clock has closed may read newer slices, and of several versions.
      const bool late = gradients > n * step.clock.value;
      if (gradients < n * step.clock.value || (!late && step.version.value != step.clock.value)) {
        report(who + ": " + std::to_string(sum) + " gradients, expected clocks of " + std::to_string(n));
      }
    }
  };
  const TempFolder folder;
  std::optional<OtherProcess> killed;
  const auto start_other = [&](const RunConfig& with_endpoints) {
    if (goes != Goes::kKilled) return;
    std::vector<std::string> arguments{"backup", std::to_string(seed), (folder / "words").string()};
    const std::vector<std::string>& endpoints = with_endpoints.cluster.endpoints;
    arguments.insert(arguments.end(), endpoints.begin(), endpoints.end());
    killed.emplace(std::move(arguments));
  };
  const auto tasks = [&](NodeId node, const StopNode& stop) -> std::unique_ptr<TaskFactory> {
    if (goes == Goes::kKilled && node == run.victim) return nullptr;
    CountingOptions options = counting;
    options.before_compute = [&, stop](const Step& step) {
      const std::uint32_t rank = cluster.rank_of(step.worker).value;
      CounterRandom jitter(seed, Stream::kTest, 90 + rank, static_cast<std::uint64_t>(step.clock.value));
      spin_for(std::chrono::microseconds(jitter.next_below(rank == seed % cluster.workers() ? 1500 : 200)));
      if (goes == Goes::kIsSent && step.worker == WorkerId(cluster.nodes - 1, 0) && step.clock >= Clock(4)) {
        stop(step.worker.node, "the test says so");
      }
      return Status::ok();
    };
    return std::make_unique<CountingFactory>(options);
  };
  const auto result = run_cluster(config, tasks, start_other, {}, {}, breaks);
  if (!result) return {describe(seed, config) + ": " + result.status().message()};
  if (lost != nullptr) *lost += result->summary.lost_nodes;
  check_end(config, goes, *result, computed, report);
  return wrong;
}

TEST_CASE("a_clock_takes_the_first_n_gradients_and_every_other_one_is_dropped_on_all_shards") {
  const auto violations = violations_of_all({1, kBackupRuns}, kAtATime, [](std::uint64_t seed) {
    return violations_of(whole_backup_run(seed), seed, Goes::kNobody);
  });
  CHECK(violations == std::vector<std::string>{});
}

TEST_CASE("so_it_does_though_connections_break_and_a_late_gradient_is_said_again") {
  const auto violations = violations_of_all({1, kBackupRuns}, kAtATime, [](std::uint64_t seed) {
    CrashRun run = whole_backup_run(seed);
    run.config.cluster.lease = kBreakingLease;
    return violations_of(run, seed, Goes::kNobody, nullptr, Breaks{seed, 6, 200, 8000});
  });
  CHECK(violations == std::vector<std::string>{});
}

TEST_CASE("a_node_that_leaves_leaves_the_others_going_whether_n_of_them_are_left_or_not") {
  const auto violations = violations_of_all({1, kBackupRuns}, kAtATime, [](std::uint64_t seed) {
    const CrashRun run = whole_backup_run(seed);
    if (run.config.cluster.nodes == 1) return std::vector<std::string>{};
    return violations_of(run, seed, Goes::kIsSent);
  });
  CHECK(violations == std::vector<std::string>{});
}

TEST_CASE("a_node_that_is_killed_leaves_the_others_going_and_its_pushes_are_whole_or_not_there") {
  std::atomic<std::int64_t> lost{0};
  const auto violations = violations_of_all({1, kBackupRuns}, kAtATime, [&](std::uint64_t seed) {
    return violations_of(backup_crash_run(seed), seed, Goes::kKilled, &lost);
  });
  CHECK(violations == std::vector<std::string>{});
  CHECK(lost > static_cast<std::int64_t>(kBackupRuns / 2));  // the others of them died too late
}

}  // namespace
}  // namespace paceline::testing
