#include "server/authority/node_parameters.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "common/config/reducing.h"

namespace paceline::server {

using NodeState = RunMembers::NodeState;

NodeParameters::NodeParameters(const RunConfig& config, const RunMembers& members, RunOutbox& outbox)
    : config_(config), members_(members), outbox_(outbox) {}

std::vector<NodeId> NodeParameters::first_group() const {
  std::vector<NodeId> nodes = members_.in(NodeState::kJoined);
  nodes.resize(std::min<std::size_t>(nodes.size(), config_.pipeline.stages));
  return nodes;
}

std::vector<NodeId> NodeParameters::senders() const {
  return config_.exchange.shard_optimizer ? members_.in(NodeState::kJoined) : first_group();
}

std::vector<NodeId> NodeParameters::owing(const RunRecord& record) const {
  std::vector<NodeId> nodes = senders();
  const auto reported = [&](NodeId node) { return record.has_report(node); };
  if (!std::all_of(nodes.begin(), nodes.end(), reported)) std::erase_if(nodes, reported);
  return nodes;
}

Status NodeParameters::lost(const RunRecord& record) const {
  if (!members_.lowest()) return unavailable("no node is left that has the run's parameters");
  const std::vector<NodeId> nodes = senders();
  const bool more_come =
      std::any_of(nodes.begin(), nodes.end(), [&](NodeId node) { return !record.has_report(node); });
  if (!config_.exchange.shard_optimizer || more_come) return Status::ok();
  std::string gone;
  for (const NodeId node : members_.in(NodeState::kGone)) {
    if (!record.has_report(node)) gone += (gone.empty() ? "" : ", ") + to_string(node);
  }
  return unavailable("the last state is not whole, since a part of it is lost with nodes " + gone);
}

void NodeParameters::ask(Version version) {
  for (const NodeId node : senders()) outbox_.to_node(node, wire::StateWanted{version});
}

void NodeParameters::keep(Version version, const EvaluationSchedule& evaluations) {
  for (const NodeId node : first_group()) {
    const bool is_asked_at_once = node == members_.lowest() && !evaluations.asked();
    if (!is_asked_at_once) outbox_.to_node(node, wire::Evaluate{version, false, /*later=*/true});
  }
}

void NodeParameters::keep_again(NodeId node, const EvaluationSchedule& evaluations) {
  const std::vector<NodeId> group = first_group();
  if (std::find(group.begin(), group.end(), node) == group.end()) return;
  const auto asked = evaluations.asked();
  for (const auto version :
       {asked && asked->node != node ? std::optional(asked->version) : std::nullopt, evaluations.waiting()}) {
    if (version) outbox_.to_node(node, wire::Evaluate{*version, false, /*later=*/true});
  }
}

bool NodeParameters::ask_for_last(Version last) {
  const auto node = members_.lowest();
  if (!node || config_.exchange.on_loss == OnLoss::kStop) return false;
  if (config_.exchange.shard_optimizer) return lost_at_end_ <= 1;
  if (*node == last_asked_) return true;
  last_asked_ = *node;
  outbox_.to_node(*node, wire::StateWanted{last});
  return true;
}

void NodeParameters::request_again(NodeId node, Version last) {
  if (is_asked(node, last)) outbox_.to_node(node, wire::StateWanted{last});
}

bool NodeParameters::on_loss_at_end(NodeId node, Version last) {
  ++lost_at_end_;
  if (!nodes_hold_parameters(config_)) return false;
  // After the last step nodes of further groups have nothing that the first one does not have.
  const bool owes = config_.pipeline.stages == 1 || node.value < state_senders(config_);
  return owes && !are_here(last) && !ask_for_last(last);
}

}  // namespace paceline::server
