#include "worker/mesh/program.h"

#include <map>
#include <utility>

namespace paceline::mesh {

Program::Program(const schedule::Plan& plan, std::uint32_t of, Encoding how)
    : rank(of),
      floats(plan.floats),
      encoding(how),
      rows(plan.ranks.at(of)),
      waits(rows.size()),
      dependents(rows.size()) {
  std::map<std::pair<std::uint32_t, bool>, std::vector<std::uint32_t>> by_way;
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    by_way[{rows[i].peer, rows[i].kind == schedule::TransferKind::kSend}].push_back(i);
    waits[i] = static_cast<std::uint32_t>(rows[i].after.size());
    for (const std::uint32_t before : rows[i].after) dependents[before].push_back(i);
  }
  for (auto& [way, indices] : by_way) ways.push_back({way.first, way.second, std::move(indices)});
}

}  // namespace paceline::mesh
