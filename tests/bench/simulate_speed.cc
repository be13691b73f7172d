// How fast the simulator is: 1,000 clocks of 1,000 and of 10,000 workers in timing mode, each policy, with a
// network that has bandwidths. Each is a process of its own, so that its memory is not another's. One JSON
// line each: events, processor time on one core, and the most memory that the process had. Memory is to be
// linear in workers: ten times as many may take twelve times as much (asked where both numbers are run).
//
//   bench_simulate [WORKERS [POLICY]]     only so many workers, only this policy
// `balanced` is SSP with mini-batches that follow each node's speed.
// Exit status 0: all limits were kept; 1: one was missed, or a policy could not be run; 2: wrong usage.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "common/config/load.h"
#include "simulate/run.h"

namespace paceline {
namespace {

constexpr std::int64_t kClocks = 1000;

struct Limit {
  std::int64_t workers;
  double seconds;
};
constexpr Limit kLimits[] = {{1000, 10.0}, {10'000, 180.0}};
constexpr long kMemoryRatioMax = 12;

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

long peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

const std::vector<std::string> kPolicies{"bsp",    "ssp",         "dtssp",  "asp",     "dssp",
                                         "backup", "random_walk", "switch", "balanced"};

std::vector<std::string> overrides_of(const std::string& policy, std::int64_t workers) {
  std::vector<std::string> overrides{"cluster.nodes=" + std::to_string(workers / 4),
                                     "train.total_iterations=" + std::to_string(workers * kClocks),
                                     "sync.policy=" + (policy == "balanced" ? "ssp" : policy)};
  if (policy == "backup") {
    overrides.push_back("sync.backup_workers=" + std::to_string(workers / 10));
  } else if (policy == "switch") {
    overrides.emplace_back(
        "sync.stages=[{policy: bsp, until: {progress: 0.5}}, {policy: ssp, threshold: 3}]");
  } else if (policy == "balanced") {
    overrides.emplace_back("train.batch_balance=speed");
  }
  return overrides;
}

// Whether the run kept its limit.
bool run(const std::string& policy, const Limit& limit) {
  const Result<RunConfig> config = parse_config(
      "cluster: {threads_per_node: 4}\n"
      "train: {model: cifar_cnn_small, batch_size: 128}\n"
      "simulate:\n"
      "  compute: {distribution: lognormal, mean: 300ms, cv: 0.3}\n"
      "  network: {bandwidth: 1GiB, server_bandwidth: 100GiB}\n"
      "  costs: {message: 200ns, apply: 0.001}\n"
      "  metric: {final_accuracy: 0.8}\n",
      "bench", overrides_of(policy, limit.workers));
  if (!config) {
    std::fprintf(stderr, "%s\n", config.status().message().c_str());
    return false;
  }
  const double began = processor_seconds();
  const auto simulated = simulate::simulate(*config);
  if (!simulated) {
    std::fprintf(stderr, "%s\n", simulated.status().message().c_str());
    return false;
  }
  const double seconds = processor_seconds() - began;
  std::printf(
      "{\"policy\": \"%s\", \"workers\": %lld, \"clocks\": %lld, \"events\": %lld, \"virtual_seconds\": "
      "%.3f, "
      "\"processor_seconds\": %.2f, \"limit\": %g, \"peak_mib\": %ld}\n",
      policy.c_str(), static_cast<long long>(limit.workers), static_cast<long long>(kClocks),
      static_cast<long long>(simulated->outcome.events), simulated->outcome.summary.wall_seconds, seconds,
      limit.seconds, peak_mib());
  std::fflush(stdout);
  return seconds <= limit.seconds;
}

struct Finished {
  bool kept = false;  // its limit
  long peak_mib = 0;
};

// The same in a process of its own, to its end.
Finished run_apart(const std::string& policy, const Limit& limit) {
  const pid_t child = fork();
  if (child < 0) {
    std::perror("fork");
    return {};
  }
  if (child == 0) _exit(run(policy, limit) ? 0 : 1);
  int status = 0;
  rusage usage{};
  if (wait4(child, &status, 0, &usage) != child) return {};
  return {WIFEXITED(status) && WEXITSTATUS(status) == 0, usage.ru_maxrss / 1024};
}

// Whether all runs of a policy kept their limits, and its memory grew with the workers and no faster.
bool run_sizes(const std::string& policy, const std::vector<Limit>& limits) {
  bool kept = true;
  long first_mib = 0;
  for (const Limit& limit : limits) {
    const Finished finished = run_apart(policy, limit);
    kept = finished.kept && kept;
    if (!finished.kept) continue;
    if (first_mib == 0) {
      first_mib = finished.peak_mib;
    } else if (finished.peak_mib > kMemoryRatioMax * first_mib) {
      std::fprintf(stderr,
                   "%s: %ld MiB with %lld workers, %ld with %lld: expected at most %ld times as much\n",
                   policy.c_str(), finished.peak_mib, static_cast<long long>(limit.workers), first_mib,
                   static_cast<long long>(limits.front().workers), kMemoryRatioMax);
      kept = false;
    }
  }
  return kept;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  const std::vector<std::string> given(argv + 1, argv + argc);
  std::vector<paceline::Limit> limits;
  for (const paceline::Limit& limit : paceline::kLimits) {
    if (given.empty() || given[0] == std::to_string(limit.workers)) limits.push_back(limit);
  }
  if (limits.empty() || given.size() > 2) {
    std::fprintf(stderr, "usage: bench_simulate [1000|10000 [POLICY]]\n");
    return 2;
  }
  std::vector<std::string> policies = paceline::kPolicies;
  if (given.size() == 2) policies = {given[1]};
  bool kept = true;
  for (const std::string& policy : policies) kept = paceline::run_sizes(policy, limits) && kept;
  return kept ? 0 : 1;
}
