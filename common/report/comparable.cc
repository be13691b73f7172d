#include "common/report/comparable.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "common/report/same_work.h"

namespace paceline {
namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

// None: its configuration does not say it.
std::optional<std::string> value_of_key(const Values& values, const std::string& key) {
  for (const auto& [path, value] : values) {
    if (path == key) return value;
  }
  return std::nullopt;
}

// Without configurations. Policies that drop gradients apply some more or fewer than they were to.
void compare_summaries(const RunSummary& first, const RunSummary& run, std::vector<Difference>& differs) {
  const auto add = [&](const char* key, std::int64_t got, std::int64_t there) {
    differs.push_back({key, std::to_string(got), std::to_string(there)});
  };
  if (run.nodes != first.nodes) add("cluster.nodes", run.nodes, first.nodes);
  if (run.threads_per_node != first.threads_per_node) {
    add("cluster.threads_per_node", run.threads_per_node, first.threads_per_node);
  }
  const auto there = static_cast<double>(first.iterations);
  if (std::abs(static_cast<double>(run.iterations) - there) > there / 100)
    add("iterations", run.iterations, first.iterations);
}

std::vector<Difference> differences(const FinishedRun& first, const FinishedRun& run) {
  std::vector<Difference> differs;
  const bool simulated = run.summary.simulated_seed.has_value();
  const bool both_finished = first.finished && run.finished;
  if (both_finished && simulated != first.summary.simulated_seed.has_value()) {
    differs.push_back({"simulated", simulated ? "true" : "false", simulated ? "false" : "true"});
  }
  if (both_finished && run.summary.trace != first.summary.trace) {
    differs.push_back({"trace", run.summary.trace.value_or("none"), first.summary.trace.value_or("none")});
  }
  if (first.configuration.empty() || run.configuration.empty()) {
    if (both_finished) compare_summaries(first.summary, run.summary, differs);
    return differs;
  }
  for (const auto& [key, there] : first.configuration) {
    if (!is_of_the_work(key) && !is_of_the_cluster(key, simulated)) continue;
    const std::optional<std::string> got = value_of_key(run.configuration, key);
    if (got && *got != there) differs.push_back({key, *got, there});
  }
  return differs;
}

}  // namespace

void mark_differences(std::span<FinishedRun> runs) {
  for (FinishedRun& run : runs.subspan(1)) run.differs = differences(runs.front(), run);
}

}  // namespace paceline
