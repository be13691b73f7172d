#include "tests/process/random_schedule.h"

#include <memory>

#include "tests/process/counting_task.h"
#include "tests/process/coverage.h"
#include "tests/process/grant_checker.h"
#include "tests/process/guarantee_checker.h"
#include "tests/process/local_cluster.h"
#include "tests/process/random_run.h"

namespace paceline::testing {

namespace {

// Where payloads are lent little is sent, and a small run says little.
Breaks random_breaks(std::uint64_t seed, const RunConfig& config) {
  CounterRandom random(seed, Stream::kTest, 78);
  Breaks breaks{seed, 1 + static_cast<std::int64_t>(random.next_below(4 * config.cluster.nodes))};
  breaks.least = 100 + static_cast<std::int64_t>(random.next_below(600));
  breaks.most = breaks.least + 100 + static_cast<std::int64_t>(random.next_below(12'000));
  return breaks;
}

}  // namespace

std::vector<std::string> violations_of(std::uint64_t seed, Coverage* coverage, Network network,
                                       Broken* broken) {
  RunConfig config = random_run(seed);
  CountingOptions counting;
  counting.blocks = random_rows(seed, config);
  const bool breaks = network == Network::kBreaks;
  if (breaks) config.cluster.lease = kBreakingLease;
  GuaranteeChecker checker(config);
  GrantChecker grants(config);
  counting.cluster = config.cluster.cluster();
  counting.seed = seed;
  counting.in_parts = pushed_in_parts(seed);
  counting.local_steps = config.train.local_steps;
  counting.gradient_scale = gradient_scale(config.sync, counting.cluster.workers());
  counting.on_read = [&checker](const Read& read) { checker.on_read(read); };

  // One run in four loses a node (never the only one) at some step of its first thread.
  CounterRandom random(seed, Stream::kTest, 2);
  const bool one_leaves = counting.cluster.nodes > 1 && random.next_below(4) == 0;
  const NodeId leaver(static_cast<std::uint32_t>(random.next_below(counting.cluster.nodes)));
  const Clock leaves_at(static_cast<std::int64_t>(random.next_below(6)));

  const auto tasks = [&](NodeId node, const StopNode& stop) {
    CountingOptions options = counting;
    options.before_compute = [&, node, stop, seed](const Step& step) {
      CounterRandom jitter(seed, Stream::kTest, 3 + counting.cluster.rank_of(step.worker).value,
                           static_cast<std::uint64_t>(step.clock.value));
      if (jitter.next_below(3) == 0) spin_for(std::chrono::microseconds(jitter.next_below(400)));
      // With local steps in the middle of a round.
      const bool leaves = step.clock == leaves_at && step.local_step == counting.local_steps / 2;
      if (one_leaves && node == leaver && step.worker.thread == 0 && leaves) {
        checker.node_goes(node);
        stop(node, "the schedule says so");
      }
      return Status::ok();
    };
    return std::make_unique<CountingFactory>(options);
  };
  // Between two that must share memory nobody can stand and listen.
  const bool received = config.cluster.shared_memory != SharedMemory::kOn && !breaks;
  Observe observe;
  if (received)
    observe = [&grants](const wire::PeerId&, const wire::Body& message) { grants.receive(message); };
  const auto run = run_cluster(config, tasks, {}, observe, {},
                               breaks ? std::optional(random_breaks(seed, config)) : std::nullopt);

  std::vector<std::string> violations;
  if (!run) {
    violations = checker.violations();
    violations.push_back(run.status().message());
  } else {
    // What the messages show comes first: it owes nothing to what the engine says of itself.
    if (received) violations = grants.violations(run->summary, /*all_count=*/!one_leaves);
    for (std::size_t k = 0; k < run->servers.size(); ++k) {
      if (!run->servers[k])
        violations.push_back("shard " + std::to_string(k) + ": " + run->servers[k].message());
    }
    const bool lends = config.cluster.shared_memory != SharedMemory::kOff;
    if (lends != (run->summary.bytes_shared > 0)) {
      violations.push_back(std::to_string(run->summary.bytes_shared) + " bytes were shared");
    }
    if (broken != nullptr) {
      broken->all += run->broken;
      broken->of_servers += run->broken_of_servers;
    }
    if (breaks && !one_leaves && run->summary.lost_nodes > 0) {
      violations.push_back("a node was lost: " + run->summary.lost.front());
    }
    for (const Status& node : run->nodes) {
      // Who does not hear how the run ended, since that was on its way, ends by the servers' silence.
      const bool ends_alone =
          node.message().find("silent for") != std::string::npos && run->servers[0].is_ok();
      if (breaks && ends_alone && broken != nullptr) ++broken->ended_alone;
      if (breaks && !one_leaves && !node.is_ok() && !ends_alone) {
        violations.push_back("a node: " + node.message());
      }
    }
    if (coverage != nullptr) coverage->count(config, run->summary, grants.grants_ahead());
    checker.on_end(run->summary, run->model.parameters, counting.blocks);
    const std::vector<std::string> read = checker.violations();
    violations.insert(violations.end(), read.begin(), read.end());
    if (received && grants.grants() < checker.reads()) violations.push_back("not every grant was heard");
  }
  if (checker.reads() == 0) violations.push_back("nobody read anything");
  for (std::string& violation : violations) violation = describe(seed, config) + ": " + violation;
  return violations;
}

}  // namespace paceline::testing
