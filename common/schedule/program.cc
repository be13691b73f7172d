#include "common/schedule/program.h"

#include <algorithm>
#include <map>
#include <utility>

namespace paceline::schedule {

Program::Program(const Plan& plan, std::uint32_t of, Encoding how)
    : rank(of),
      floats(plan.floats),
      encoding(how),
      rows(plan.ranks.at(of)),
      waits(rows.size()),
      dependents(rows.size()) {
  std::map<std::pair<std::uint32_t, bool>, std::vector<std::uint32_t>> by_way;
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    by_way[{rows[i].peer, rows[i].kind == TransferKind::kSend}].push_back(i);
    waits[i] = static_cast<std::uint32_t>(rows[i].after.size());
    for (const std::uint32_t before : rows[i].after) dependents[before].push_back(i);
  }
  for (auto& [way, indices] : by_way) ways.push_back({way.first, way.second, std::move(indices)});
}

const Program::Way* Program::way(std::uint32_t peer, bool sends) const {
  const auto found = std::lower_bound(
      ways.begin(), ways.end(), std::pair(peer, sends),
      [](const Way& way, const auto& which) { return std::pair(way.peer, way.sends) < which; });
  return found != ways.end() && found->peer == peer && found->sends == sends ? &*found : nullptr;
}

}  // namespace paceline::schedule
