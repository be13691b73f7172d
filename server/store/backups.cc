#include "server/store/backups.h"

#include <algorithm>

namespace paceline::server {

void Backups::sent(NodeId node, Revision revision, const BlockRange& state, const GradientStore& gradients) {
  std::deque<State>& states = by_node_[node.value];
  if (!states.empty() && states.back().revision >= revision) return;
  states.push_back({revision, state});
  const auto not_pushed = [&](const State& held) {
    return !gradients.was_computed_with(WorkerId(node, 0), held.revision);
  };
  const std::ptrdiff_t max = kNotPushedMax + again_[node.value];
  if (std::count_if(states.begin(), states.end(), not_pushed) <= max) return;
  states.erase(std::find_if(states.begin(), states.end(), not_pushed));
}

const BlockRange* Backups::find(WorkerId worker, Revision revision) const {
  for (const State& state : by_node_[worker.node.value]) {
    if (state.revision == revision) return &state.parameters;
  }
  return nullptr;
}

std::vector<BlockRange*> Backups::lacking(WorkerId worker, Revision computed, Revision applied,
                                          const GradientStore& gradients) {
  std::deque<State>& states = by_node_[worker.node.value];
  again_[worker.node.value] = 0;
  std::erase_if(states, [&](const State& state) {
    return state.revision < computed && !gradients.was_computed_with(worker, state.revision);
  });
  std::vector<BlockRange*> lacking;
  for (State& state : states) {
    if (state.revision < applied) lacking.push_back(&state.parameters);
  }
  return lacking;
}

std::size_t Backups::states() const {
  std::size_t states = 0;
  for (const auto& of_node : by_node_) states += of_node.size();
  return states;
}

}  // namespace paceline::server
