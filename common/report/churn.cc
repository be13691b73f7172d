#include "common/report/churn.h"

#include <cstddef>

namespace paceline {
namespace {

constexpr std::size_t kNamedMax = 1000;

void note(std::int64_t& count, std::vector<std::string>& named, NodeId node, const std::string& what) {
  ++count;
  if (named.size() < kNamedMax) named.push_back("node " + to_string(node) + what);
}

}  // namespace

void ChurnRecord::lost(NodeId node, const std::string& why) {
  finished_early_.erase(node);  // so it said
  last_has_finished_ = false;
  churn_.away.insert(node);
  note(churn_.lost_nodes, churn_.lost, node, ": " + why);
}

void ChurnRecord::returned(NodeId node, Version version) {
  finished_early_.erase(node);
  churn_.away.erase(node);
  note(churn_.returned_nodes, churn_.returned, node, " at version " + to_string(version));
}

void ChurnRecord::came_late(NodeId node, Version version) {
  note(churn_.late_nodes, churn_.late, node, " at version " + to_string(version));
}

void ChurnRecord::finished_early(NodeId node) {
  finished_early_.insert(node);
  last_has_finished_ = true;
}

void set_churn(RunSummary& summary, const Churn& churn) {
  summary.lost_nodes = churn.lost_nodes;
  summary.lost = churn.lost;
  summary.returned_nodes = churn.returned_nodes;
  summary.returned = churn.returned;
  summary.late_nodes = churn.late_nodes;
  summary.late = churn.late;
}

}  // namespace paceline
