#include "common/schedule/print.h"

namespace paceline::schedule {

std::string to_string(const Transfer& row) {
  const std::string range = std::to_string(row.range.begin) + ".." + std::to_string(row.range.end);
  const std::string peer = std::to_string(row.peer);
  switch (row.kind) {
    case TransferKind::kSend:
      return "send " + range + " to " + peer;
    case TransferKind::kReceive:
      return "receive " + range + " from " + peer;
    case TransferKind::kAdd:
      return "add " + range + " from " + peer;
  }
  return "";
}

std::string to_string(const Plan& plan) {
  std::string text = plan.name + ", " + std::to_string(plan.ranks.size()) + " ranks, " +
                     std::to_string(plan.floats) + " floats\n";
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const Rows& rows = plan.ranks[rank];
    text += "rank " + std::to_string(rank) + ": sends " + std::to_string(floats_sent(rows)) + " floats\n";
    for (std::size_t i = 0; i < rows.size(); ++i) {
      text += "  " + std::to_string(i) + "  " + to_string(rows[i]);
      for (std::size_t k = 0; k < rows[i].after.size(); ++k) {
        text += (k == 0 ? ", after " : " ") + std::to_string(rows[i].after[k]);
      }
      text += "\n";
    }
  }
  return text;
}

}  // namespace paceline::schedule
