#include "common/report/batch_sizes.h"

#include <algorithm>

namespace paceline {

BatchSizeRecord::BatchSizeRecord(Cluster cluster, std::int64_t batch_size, std::int64_t total_iterations)
    : cluster_(cluster), whole_clocks_(total_iterations / cluster.workers()) {
  sizes_.last.resize(cluster.workers());
  sizes_.smallest.resize(cluster.workers());
  sizes_.largest.resize(cluster.workers());
  reported_.assign(cluster.workers(), batch_size);
}

void BatchSizeRecord::add(const sync::Grant& grant) {
  if (grant.clock >= whole_clocks_) return;
  const std::size_t rank = cluster_.rank_of(grant.worker).value;
  const bool is_first = sizes_.last[rank] == 0;
  sizes_.last[rank] = grant.samples;
  sizes_.smallest[rank] = is_first ? grant.samples : std::min(sizes_.smallest[rank], grant.samples);
  sizes_.largest[rank] = std::max(sizes_.largest[rank], grant.samples);
}

std::string BatchSizeRecord::change() {
  bool changed = false;
  for (std::size_t rank = 0; rank < reported_.size(); ++rank) {
    if (sizes_.last[rank] == 0 || sizes_.last[rank] == reported_[rank]) continue;
    reported_[rank] = sizes_.last[rank];
    changed = true;
  }
  std::string text;
  for (std::uint32_t n = 0; changed && n < cluster_.nodes; ++n) {
    const std::size_t first = cluster_.rank_of(WorkerId(NodeId(n), 0)).value;
    text += (text.empty() ? "node " : ", node ") + std::to_string(n) + ": " +
            batch_range(sizes_.last, sizes_.last, first, cluster_.threads_per_node);
  }
  return text;
}

std::string batch_range(const std::vector<std::int64_t>& smallest, const std::vector<std::int64_t>& largest,
                        std::size_t first, std::uint32_t threads) {
  std::int64_t least = 0, most = 0;
  for (std::size_t rank = first; rank < first + threads; ++rank) {
    if (largest[rank] == 0) continue;
    least = least == 0 ? smallest[rank] : std::min(least, smallest[rank]);
    most = std::max(most, largest[rank]);
  }
  if (most == 0) return "none";
  return least == most ? std::to_string(least) : std::to_string(least) + " to " + std::to_string(most);
}

}  // namespace paceline
