// What is said again to a node whose connection broke: what it may not have heard. It knows what it has heard
// (a grant by its clock, an evaluation by its version), and does nothing twice.
//
//   it comes over another connection      which nodes it is connected to; of each worker the grant that is not
//                                         reported, or that it is finished; the evaluation that it was asked
//                                         for; how the run ended
//   it reports an iteration once more     likewise, from the present state: granted, held or finished
#include <algorithm>
#include <optional>

#include "server/authority/authority.h"
#include "server/store/decision.h"

namespace paceline::server {

void Authority::node_rejoined(NodeId node) {
  const NodeState state = members_[node];
  if (state == NodeState::kGone && (concluded() || hands_over_)) {  // it was told, and is not lost
    return to_node(node, wire::RunOver{result_.code(), result_.message(), resumable_});
  }
  if (state != NodeState::kJoined) return;
  say_formation_again(node);
  if (stage_ == Stage::kGathering) return;
  // Ahead of the grant with which it leaves that version.
  if (reduces()) keep_again(node);
  for (std::uint32_t thread = 0; thread < config_.cluster.threads_per_node; ++thread) {
    instruct_again(WorkerId(node, thread));
  }
  if (const auto asked = evaluation_.asked_of(node)) to_node(node, *asked);
}

void Authority::keep_again(NodeId node) {
  const std::vector<NodeId> group = first_group();
  if (std::find(group.begin(), group.end(), node) == group.end()) return;
  const auto asked = evaluation_.asked();
  for (const auto version :
       {asked && asked->node != node ? std::optional(asked->version) : std::nullopt, evaluation_.waiting()}) {
    if (version) to_node(node, wire::Evaluate{*version, false, /*later=*/true});
  }
}

// A report that the core has taken before. Who has not completed its iteration yet hears when it has.
void Authority::answer_again(WorkerId worker, Ticks now) {
  if (const auto held = engine_.held_now(worker, now)) return carry_out(*held, now);
  instruct_again(worker);
}

void Authority::tells(WorkerId worker, Instruction instruction) {
  Told& told = told_[config_.cluster.cluster().rank_of(worker).value];
  told.before = std::exchange(told.last, std::move(instruction));
}

// A grant stands as it was given, whatever the threshold is now; what exists may be newer.
void Authority::instruct_again(WorkerId worker) {
  const Told& told = told_[config_.cluster.cluster().rank_of(worker).value];
  if (const auto* finished = std::get_if<sync::FinishWorker>(&told.last)) {
    return to_node(worker.node, wire::FinishWorker{worker, finished->reason, finished->held});
  }
  for (const Instruction* each : {&told.before, &told.last}) {
    const auto* const granted = std::get_if<sync::Grant>(each);
    if (granted == nullptr || !engine_.awaits_report(worker, granted->clock)) continue;
    sync::Grant again = *granted;
    again.version = engine_.version();
    again.revision = engine_.revision();
    to_node(worker.node, grant_of(config_, again));
  }
}

}  // namespace paceline::server
