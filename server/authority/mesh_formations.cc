#include "server/authority/mesh_formations.h"

#include <algorithm>
#include <utility>

#include "common/config/local_endpoint.h"
#include "common/host_port.h"
#include "server/run/seconds_text.h"

namespace paceline::server {
namespace {

using NodeState = RunMembers::NodeState;

// A network in which nodes reach the server and not each other makes one formation after another, each of which takes
// as long as a connection may (worker/mesh/handshake.cc).
constexpr std::uint32_t kFormationsMax = 3;

// Of nodes of which some are reached at loopback and some are not, so that not all reach each other: two of them.
std::string wrongly_loopback_among(const std::vector<std::string>& endpoints) {
  const auto is_loopback = [](const std::string& at) { return is_loopback_number(host_and_port(at).host); };
  const auto here = std::find_if(endpoints.begin(), endpoints.end(),
                                 [&](const std::string& at) { return !at.empty() && is_loopback(at); });
  const auto there = std::find_if(endpoints.begin(), endpoints.end(),
                                  [&](const std::string& at) { return !at.empty() && !is_loopback(at); });
  if (here == endpoints.end() || there == endpoints.end()) return "";
  return "node " + std::to_string(here - endpoints.begin()) + " is reached at " + *here +
         ", where no other machine comes, and node " + std::to_string(there - endpoints.begin()) + " at " +
         *there + "; " + kLoopbackAdvice + " or cluster.mesh_address";
}

}  // namespace

MeshFormations::MeshFormations(const RunConfig& config, const RunMembers& members, RunOutbox& outbox,
                               trace::DecisionLog* trace, const Log& log)
    : config_(config),
      members_(members),
      outbox_(outbox),
      trace_(trace),
      log_(log),
      formations_(config.cluster.nodes) {}

Status MeshFormations::check(NodeId from, const wire::Peers& peers, Version version) const {
  if (!nodes_are_connected(config_) || peers.endpoints.size() != 1 || peers.endpoints[0].empty()) {
    return invalid_argument(
        "endpoints of node " + to_string(from) + ": got " + std::to_string(peers.endpoints.size()) +
        ", expected one, and exchange.kind: allreduce, pipeline.stages or train.batch_norm_group");
  }
  if (peers.formation > formations_.number()) {
    return invalid_argument("node " + to_string(from) + " has left formation " +
                            std::to_string(peers.formation) + ", the newest is " +
                            std::to_string(formations_.number()));
  }
  if (peers.formation == 0 || peers.formation < formations_.number()) return Status::ok();
  const bool could_be = !peers.lost || (*peers.lost != from && members_.is_known(*peers.lost));
  const std::int64_t lead = peers.version.value - version.value;
  if (!could_be || lead < 0 || lead > 1) {
    return invalid_argument("node " + to_string(from) + " at version " + to_string(peers.version) +
                            " has lost " + (peers.lost ? "node " + to_string(*peers.lost) : "nobody") +
                            ", expected version " + to_string(version) +
                            " or the next, and another node of the run");
  }
  return Status::ok();
}

Result<MeshFormations::News> MeshFormations::on_peers(NodeId from, const wire::Peers& peers, Version version,
                                                      bool goes_on, Ticks now) {
  PACELINE_RETURN_IF_ERROR(check(from, peers, version));
  // It has not heard yet that the next one is there.
  if (peers.formation < formations_.number()) {
    resend(from);
    return News::kNothingNew;
  }
  if (peers.formation > 0) {
    if (!goes_on) return News::kLost;
    if (!formations_.gathers()) {
      log_.warn(peers.why + ": node " + to_string(from) + " has left formation " +
                std::to_string(peers.formation));
    }
    // Whose connection has ended may have left the formation as well, and says so by itself.
    end(std::nullopt, peers.why + ", says node " + to_string(from), now);
  }
  formations_.set_endpoint(from, peers.endpoints[0], peers.version);
  return News::kEndpoint;
}

// Who is in it says where it is reached in the next one.
void MeshFormations::end(std::optional<NodeId> lost, std::string why, Ticks now) {
  if (formations_.gathers()) return;
  formations_.end();
  if (trace_ != nullptr) trace_->parted(lost, now);
  over_since_ = now;
  why_over_ = std::move(why);
  for (const NodeId node : members_.in(NodeState::kJoined)) outbox_.to_node(node, over());
}

wire::Peers MeshFormations::over() const {
  wire::Peers over;
  over.formation = formations_.number();
  over.why = why_over_;
  return over;
}

void MeshFormations::lost(NodeId node, const std::string& why, Ticks now) {
  formations_.forget(node);
  end(node, "node " + to_string(node) + " lost: " + why, now);
}

void MeshFormations::resend(NodeId node) {
  if (formations_.number() == 0) return;
  if (!newest_.endpoints[node.value].empty()) outbox_.to_node(node, newest_);
  if (formations_.gathers()) outbox_.to_node(node, over());
}

Status MeshFormations::form(Version version, Ticks now) {
  const bool first = formations_.number() == 0;
  const std::vector<NodeId> here = members_.in(NodeState::kJoined);
  if (first && here.size() < config_.cluster.nodes) return Status::ok();
  const std::optional<Formation> next = formations_.next(here, version);
  if (!next) return Status::ok();
  const std::string wrong = wrongly_loopback_among(next->endpoints);
  if (!wrong.empty()) return failed_precondition(wrong);
  if (formations_.of_the_same() > kFormationsMax) {
    return unavailable(
        std::to_string(kFormationsMax) +
        " times one after another the same nodes have met anew, and made no step; at last: " + why_over_);
  }
  wire::Peers peers;
  peers.token = members_.process(NodeId(0)).incarnation + next->number - 1;
  peers.endpoints = next->endpoints;
  peers.formation = next->number;
  peers.version = next->version;
  peers.holder = next->holder;
  if (!config_.security.keys.empty()) peers.key = new_formation_key();
  for (const NodeId node : here) outbox_.to_node(node, peers);
  newest_ = std::move(peers);
  if (first) return Status::ok();
  if (trace_ != nullptr) trace_->formed(next->version, now);
  log_.info("formation " + std::to_string(next->number) + ": " + std::to_string(here.size()) +
            " nodes are to go on from version " + to_string(next->version) +
            (next->holder ? ", which node " + to_string(*next->holder) + " gives the others" : ""));
  return Status::ok();
}

std::vector<NodeId> MeshFormations::awaited() const {
  std::vector<NodeId> silent;
  if (!nodes_are_connected(config_) || !formations_.gathers()) return silent;
  for (const NodeId node : members_.in(NodeState::kJoined)) {
    if (!formations_.has_endpoint(node)) silent.push_back(node);
  }
  return silent;
}

std::vector<NodeId> MeshFormations::overdue(Ticks now) const {
  const bool in_time = formations_.number() == 0 || now - over_since_ <= kLeases * config_.cluster.lease;
  return in_time ? std::vector<NodeId>() : awaited();
}

Status MeshFormations::too_late() const {
  return deadline_exceeded("it has not reported within " +
                           whole_seconds_text(kLeases * config_.cluster.lease) +
                           " where the others reach it");
}

void MeshFormations::stepped() { formations_.stepped(members_.in(NodeState::kJoined)); }

}  // namespace paceline::server
