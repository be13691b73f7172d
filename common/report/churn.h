// Who came and went while a run trained: nodes that were lost, those of them that came back, those that were not there
// when training began, and those that went ahead of the end since they had done what they were to do. The daemons'
// authority and the simulator's keep this record alike.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/report/run_summary.h"

namespace paceline {

// In all generations of the run. Nodes may be lost and come back without end: all are counted, and the first 1,000
// named.
struct Churn {
  std::int64_t lost_nodes = 0;
  std::vector<std::string> lost;  // "node 2: silent for 10.2 s"
  std::int64_t returned_nodes = 0;
  std::vector<std::string> returned;  // "node 2 at version 118"
  std::int64_t late_nodes = 0;
  std::vector<std::string> late;
  std::set<NodeId> away;  // lost, and not back
};

// Thread: one at a time.
class ChurnRecord {
 public:
  // Goes on from what another one had counted.
  void resume(Churn before) { churn_ = std::move(before); }

  void lost(NodeId node, const std::string& why);
  // A node takes part from `version` on: one that had been lost, or one that was not there before.
  void returned(NodeId node, Version version);
  void came_late(NodeId node, Version version);
  // It goes ahead of the run's end, and has done what it was to do.
  void finished_early(NodeId node);

  bool has_finished_early(NodeId node) const { return finished_early_.contains(node); }
  // Whether the last that has gone before the run's end has gone so.
  bool last_has_finished() const { return last_has_finished_; }
  bool is_away(NodeId node) const { return churn_.away.contains(node); }
  const Churn& so_far() const { return churn_; }

 private:
  Churn churn_;
  std::set<NodeId> finished_early_;
  bool last_has_finished_ = false;
};

// Fills what a summary says of it.
void set_churn(RunSummary& summary, const Churn& churn);

}  // namespace paceline
