// The guarantees while a node dies: random schedules of every policy, apply mode, shard count, transport and
// lossless encoding in which one node is a process of its own that is killed, or stands still, at a random
// moment (crash_run.h). Every read of the survivors is checked against what the dead node had done, with all
// guarantees in force until it is really dead; and at the end each of its pushes is on all shards or on none.
// A failure prints the seed; seeds.h says how to run that schedule alone.
#include <sys/wait.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tests/process/coverage.h"
#include "tests/process/crash_run.h"
#include "tests/process/grant_checker.h"
#include "tests/process/guarantee_checker.h"
#include "tests/process/local_cluster.h"
#include "tests/process/other_process.h"
#include "tests/process/schedules.h"
#include "tests/seeds.h"
#include "tests/unit/temp_folder.h"

namespace paceline::testing {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSchedules = 40;
#else
constexpr std::uint64_t kSchedules = 250;
#endif
constexpr int kAtATime = 16;

struct Tally {
  Coverage coverage;
  std::atomic<int> died{0};     // while the others were training
  std::atomic<int> cut_off{0};  // workers whose gradient was computed, and pushed in part or not at all
};

std::vector<std::string> violations_of(std::uint64_t seed, Tally& tally) {
  const CrashRun crash = crash_run(seed);
  const Cluster cluster = crash.config.cluster.cluster();
  const TempFolder folder;
  const std::string words_file = (folder / "words").string();
  LastWords words(words_file);
  GuaranteeChecker checker(crash.config);
  checker.node_is_elsewhere(crash.victim, [&](std::uint32_t rank) { return words.begun(Rank(rank)); });
  GrantChecker grants(crash.config);
  grants.node_is_elsewhere(crash.victim, [&](std::uint32_t rank) { return words.computed(Rank(rank)); });

  std::optional<OtherProcess> victim;
  CountingOptions options = counting_options(crash, seed);
  options.on_read = [&](const Read& read) {
    // Asked after the read was made: a node that lives now lived then.
    if (words.dying()) checker.node_goes(crash.victim);
    checker.on_read(read);
  };
  options.before_compute = [&](const Step& step) {
    CounterRandom jitter(seed, Stream::kTest, 60 + cluster.rank_of(step.worker).value,
                         static_cast<std::uint64_t>(step.clock.value));
    if (jitter.next_below(3) == 0) spin_for(std::chrono::microseconds(jitter.next_below(400)));
    return Status::ok();
  };
  // Between two that must share memory nobody can stand and listen.
  const bool received = crash.config.cluster.shared_memory != SharedMemory::kOn;
  Observe observe;
  if (received) observe = [&](const wire::PeerId&, const wire::Body& message) { grants.receive(message); };
  const auto run = run_cluster(
      crash.config,
      [&](NodeId node, const StopNode&) {
        return node == crash.victim ? nullptr : std::make_unique<CountingFactory>(options);
      },
      [&](const RunConfig& config) {
        std::vector<std::string> arguments{"any", std::to_string(seed), words_file};
        arguments.insert(arguments.end(), config.cluster.endpoints.begin(), config.cluster.endpoints.end());
        victim.emplace(std::move(arguments));
      },
      observe);
  if (!run) return {describe(seed, crash.config) + ": " + run.status().message()};
  if (words.dying()) checker.node_goes(crash.victim);

  tally.coverage.count(crash.config, run->summary, grants.grants_ahead());
  checker.on_end(run->summary, run->model.parameters, crash.blocks);
  std::vector<std::string> violations = checker.violations();
  if (received) {
    const std::vector<std::string> wrong = grants.violations(run->summary, /*all_count=*/false);
    violations.insert(violations.end(), wrong.begin(), wrong.end());
  }
  for (const Status& server : run->servers) {
    if (!server) violations.push_back("a server: " + server.message());
  }
  for (const Status& node : run->nodes) {
    if (!node) violations.push_back("a surviving node: " + node.message());
  }
  const int status = victim->bury(words.dying());
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) violations.emplace_back("the other process failed");
  if (run->summary.lost_nodes > 0) tally.died.fetch_add(1);
  for (std::uint32_t j = 0; j < cluster.workers(); ++j) {
    if (cluster.worker_at(Rank(j)).node != crash.victim || run->summary.lost_nodes == 0) continue;
    const auto counted = static_cast<std::int64_t>(std::lround(run->model.parameters[j]));
    if (crash.config.sync.combine == CombineMode::kEach && counted < words.computed(Rank(j))) {
      tally.cut_off.fetch_add(1);
    }
  }
  for (std::string& violation : violations) {
    violation = describe(seed, crash.config) + ", node " + to_string(crash.victim) + " dies: " + violation;
  }
  return violations;
}

}  // namespace

TEST_CASE("the_survivors_of_a_dying_node_keep_every_guarantee_and_its_pushes_are_whole_or_not_there") {
  const Seeds range = seeds(kSchedules);
  Tally tally;
  const std::vector<std::string> violations =
      violations_of_all(range, kAtATime, [&](std::uint64_t seed) { return violations_of(seed, tally); });
  WARN(tally.died << " of " << range.count << " nodes were lost, " << tally.cut_off
                  << " workers with a push under way");
  for (const std::string& violation : violations) UNSCOPED_INFO(violation);
  REQUIRE(violations.empty());
  INFO(tally.coverage.to_string());
  CHECK(tally.coverage.missing() == std::vector<std::string>{});
  if (range.count < kCombinations) return;  // one schedule again: its node may have died without a push
  CHECK(tally.died > static_cast<int>(range.count / 2));
  CHECK(tally.cut_off > 0);
}

}  // namespace paceline::testing
