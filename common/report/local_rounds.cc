#include "common/report/local_rounds.h"

#include "common/report/batch_sizes.h"

namespace paceline {

std::optional<LocalRounds> local_rounds(const RunSummary& s) {
  if (s.rounds.value_or(0) == 0) return std::nullopt;
  LocalRounds of{*s.rounds, static_cast<double>(s.iterations) / static_cast<double>(*s.rounds),
                 s.batch_sizes.has_value()};
  // Phases count the rounds that were pushed, so the rest is known only where all of them were applied.
  const bool all_applied = !s.resumed_from && s.lost_nodes == 0 && s.dropped == 0 && s.skipped == 0;
  const std::int64_t computed = s[Phase::kComputeGrads].count;
  if (all_applied && computed > 0 && computed < s.iterations) of.computed = computed;
  return of;
}

std::vector<NodeSamples> samples_of_nodes(const RunSummary& s) {
  std::vector<NodeSamples> nodes;
  for (std::uint32_t n = 0; s.batch_sizes && n < s.nodes; ++n) {
    const WorkerBatchSizes& sizes = *s.batch_sizes;
    const std::size_t first = std::size_t{n} * s.threads_per_node;
    nodes.push_back({n, batch_range(sizes.last, sizes.last, first, s.threads_per_node),
                     batch_range(sizes.smallest, sizes.largest, first, s.threads_per_node)});
  }
  return nodes;
}

}  // namespace paceline
