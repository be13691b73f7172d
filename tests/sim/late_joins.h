// Who comes to servers that are resumed: of those who were there when the run was saved most do, of the
// others some. Somebody always does.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/sync/engine_config.h"
#include "common/sync/engine_state.h"

namespace paceline::test {

struct LateJoins {
  std::vector<std::uint32_t> come;       // nodes, in this order
  std::vector<std::uint32_t> stay_away;  // who were there, and are lost
  bool somebody_was_lost = false;        // when it was saved
};

// `nodes`: all of them, in some order. `losses`: who was there may stay away. chance(n): true once in n.
template <typename Chance>
LateJoins draw_joiners(const sync::EngineConfig& config, const sync::EngineState& state,
                       const std::vector<std::uint32_t>& nodes, bool losses, Chance&& chance) {
  const auto was_there = [&](std::uint32_t node) {
    bool there = false;
    for (std::uint32_t t = 0; t < config.cluster.threads_per_node; ++t) {
      there = there || state.workers[config.cluster.rank_of({node, t}).value].there;
    }
    return there;
  };
  LateJoins joiners;
  for (const std::uint32_t node : nodes) {
    const bool there = was_there(node);
    joiners.somebody_was_lost = joiners.somebody_was_lost || !there;
    const bool stays = there ? losses && chance(5) : chance(2);
    if (!stays) joiners.come.push_back(node);
    if (stays && there) joiners.stay_away.push_back(node);
  }
  if (joiners.come.empty()) {
    joiners.come.push_back(joiners.stay_away.back());
    joiners.stay_away.pop_back();
  }
  // Where nobody may come late, those come first who are not waited for, and training begins with the last
  // that are.
  if (!sync::workers_come_and_go(config)) {
    std::stable_partition(joiners.come.begin(), joiners.come.end(),
                          [&](std::uint32_t node) { return !was_there(node); });
  }
  return joiners;
}

}  // namespace paceline::test
