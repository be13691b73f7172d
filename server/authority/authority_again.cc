// What is said again to a node whose connection broke: what it may not have heard. It knows what it has heard, and does
// nothing twice.
//
// Which nodes it is connected to; of each worker the instruction (instructions.h); the evaluation that it was asked for;
// how the run ended.
#include "server/authority/authority.h"

namespace paceline::server {

void Authority::node_rejoined(NodeId node) {
  const NodeState state = members_[node];
  if (state == NodeState::kGone && (state_.concluded() || state_.hands_over())) {  // it was told, and is not lost
    return outbox_.to_node(node, state_.said());
  }
  if (state != NodeState::kJoined) return;
  formations_.say_again(node);
  if (state_.is(Stage::kGathering)) return;
  // Ahead of the grant with which it leaves that version.
  if (reduces()) node_parameters_.keep_again(node, evaluations_.schedule());
  instructions_.repeat(node, engine_);
  if (const auto asked = evaluations_.schedule().asked_of(node)) outbox_.to_node(node, *asked);
}

}  // namespace paceline::server
