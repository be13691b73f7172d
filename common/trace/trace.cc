#include "common/trace/trace.h"

#include <algorithm>
#include <set>

namespace paceline::trace {
namespace {

template <typename E, std::size_t N>
std::optional<E> one_named(const std::array<const char*, N>& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<E>(found - names.begin());
}

}  // namespace

std::optional<DecisionKind> decision_named(std::string_view name) {
  return one_named<DecisionKind>(kDecisionNames, name);
}

std::optional<Release> release_named(std::string_view name) {
  return one_named<Release>(kReleaseNames, name);
}

std::string to_string(const Process& process) {
  return process.server ? "server " + to_string(*process.server) : "node " + to_string(process.node);
}

std::int64_t Trace::events() const {
  std::size_t sum = decisions.size();
  for (const WorkerSpans& worker : workers) sum += worker.spans.size();
  for (const ShardSpans& shard : shards) sum += shard.spans.size();
  for (const StageSpans& stage : stages) sum += stage.spans.size();
  for (const BucketSpans& node : buckets) sum += node.spans.size();
  return static_cast<std::int64_t>(sum);
}

std::int64_t Trace::left_out() const {
  std::int64_t sum = decisions_left_out;
  for (const WorkerSpans& worker : workers) sum += worker.left_out;
  for (const ShardSpans& shard : shards) sum += shard.left_out;
  for (const StageSpans& stage : stages) sum += stage.left_out;
  for (const BucketSpans& node : buckets) sum += node.left_out;
  return sum;
}

const WorkerSpans* Trace::find(WorkerId worker) const {
  const auto found =
      std::find_if(workers.begin(), workers.end(), [&](const auto& w) { return w.worker == worker; });
  return found == workers.end() ? nullptr : &*found;
}

std::vector<WorkerId> Trace::without_spans() const {
  std::set<WorkerId> missing;
  for (const Decision& d : decisions) {
    const bool takes_part = d.kind == DecisionKind::kJoined || d.kind == DecisionKind::kGranted;
    if (takes_part && d.worker) missing.insert(*d.worker);
  }
  for (const WorkerSpans& worker : workers) {
    if (!worker.spans.empty()) missing.erase(worker.worker);
  }
  return {missing.begin(), missing.end()};
}

}  // namespace paceline::trace
