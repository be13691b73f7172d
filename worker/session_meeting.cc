// How the nodes of a session that talk to each other meet: each tells the authority where it listens, hears where all
// others do, and connects to them (worker/mesh/).
#include <chrono>
#include <utility>

#include "common/config/mesh_address.h"
#include "common/config/reducing.h"
#include "common/formation_key.h"
#include "worker/mesh/handshake.h"
#include "worker/mesh/own_address.h"
#include "worker/session.h"

namespace paceline {
namespace {

// The connections to the nodes of the same stage, which talk of nothing else, and this node's place among them.
std::pair<mesh::PeerConnections, mesh::Place> take_stage(std::uint32_t stages,
                                                         mesh::PeerConnections& connections,
                                                         const mesh::Place& place) {
  mesh::PeerConnections own;
  mesh::Place of_stage{.rank = place.rank / stages, .endpoints = {}, .token = place.token, .key = place.key};
  for (std::uint32_t node = place.rank % stages; node < connections.size(); node += stages) {
    own.push_back(std::move(connections[node]));
    of_stage.endpoints.push_back(place.endpoints[node]);
    of_stage.nodes.emplace_back(node);
  }
  return {std::move(own), std::move(of_stage)};
}

// Of nodes that are all connected, those of this one's group once more: what they say of norms goes beside the sums. By
// node; null where it is of another group.
Result<mesh::PeerConnections> meet_group(std::uint32_t members, const mesh::Listening& listening,
                                         const mesh::Place& place, const mesh::StopFlag& stop,
                                         std::chrono::milliseconds within, std::optional<NodeId>& unmet,
                                         std::shared_ptr<const void>& begun) {
  const std::uint32_t first = place.rank / members * members;
  mesh::Place of_group{.rank = place.rank - first, .endpoints = {}, .token = place.token, .key = place.key};
  for (std::uint32_t node = first; node < first + members; ++node) {
    of_group.endpoints.push_back(place.endpoints[node]);
    of_group.nodes.emplace_back(node);
  }
  auto met = mesh::shake_hands(listening, of_group, stop, within, &unmet, &begun);
  forget(of_group.key);
  PACELINE_ASSIGN_OR_RETURN(mesh::PeerConnections own, std::move(met));
  mesh::PeerConnections connections(place.endpoints.size());
  std::move(own.begin(), own.end(), connections.begin() + first);
  return connections;
}

}  // namespace

// Without a key of its formation a node of a run with keys would talk in clear.
Status Session::check_key(const mesh::Place& place) const {
  const bool has_keys = !config_.security.keys.empty();
  if (place.key.has_value() == has_keys) return Status::ok();
  return failed_precondition(
      has_keys
          ? "the authority gave no key for what nodes say to each other, and this run has security.keys"
          : "the authority gave a key for what nodes say to each other, and this node has no security.keys");
}

Result<mesh::Listening> Session::listen() const {
  MeshAddress wanted;
  if (config_.cluster.mesh_address) {
    PACELINE_ASSIGN_OR_RETURN(wanted, parse_mesh_address(*config_.cluster.mesh_address));
  }
  auto listening = mesh::listen_for_peers(wanted, config_.cluster.endpoints.front());
  if (listening.is_ok() || !config_.cluster.mesh_address) return listening;
  Status why = listening.status();
  return std::move(why).with_context("cluster.mesh_address: " + *config_.cluster.mesh_address);
}

// Where nodes talk to each other: every one knows every other one.
Status Session::meet_nodes() {
  if (!nodes_are_connected(config_)) return Status::ok();
  PACELINE_ASSIGN_OR_RETURN(mesh::Listening listening, listen());
  PACELINE_RETURN_IF_ERROR(connect_nodes(listening_.emplace(std::move(listening))));
  listening_.reset();
  return Status::ok();
}

Status Session::connect_nodes(const mesh::Listening& listening) {
  wire::Peers own;
  own.endpoints = {listening.endpoint};
  PACELINE_ASSIGN_OR_RETURN(wire::Peers peers,
                            client_.exchange_endpoints(std::move(own), config_.cluster.start_timeout));
  mesh::Place place{parts_.node.value, std::move(peers.endpoints), peers.token};
  place.key = peers.key;
  PACELINE_RETURN_IF_ERROR(check_key(place));
  const auto within = std::chrono::duration_cast<std::chrono::milliseconds>(config_.cluster.start_timeout);
  if (reduces_ != nullptr && !config_.pipeline.enabled()) {
    const std::uint32_t members = config_.train.batch_norm_group;
    Status connected = reduces_->connect(listening, place);
    // Who still waits for some of all would turn away who comes from its group.
    if (connected.is_ok() && members > 1) connected = reduces_->await_all();
    PACELINE_RETURN_IF_ERROR(begin_reducing(connected));
    if (members > 1) {
      PACELINE_ASSIGN_OR_RETURN(
          mesh::PeerConnections connections,
          meet_group(members, listening, place, stop_channels_, within, unmet_, begun_));
      meet_peers(std::move(connections), std::move(place));
    }
  } else {
    PACELINE_ASSIGN_OR_RETURN(mesh::PeerConnections connections,
                              mesh::shake_hands(listening, place, stop_channels_, within, &unmet_, &begun_));
    std::pair<mesh::PeerConnections, mesh::Place> of_stage;
    if (reduces_ != nullptr) of_stage = take_stage(config_.pipeline.stages, connections, place);
    meet_peers(std::move(connections), std::move(place));
    if (reduces_ != nullptr) {
      auto& [of_same, place_there] = of_stage;
      PACELINE_RETURN_IF_ERROR(begin_reducing(reduces_->connect(std::move(of_same), std::move(place_there))));
    }
  }
  parts_.log.info("node " + to_string(parts_.node) + " is connected to " +
                  std::to_string(config_.cluster.nodes - 1) + " other node(s), and listens at " +
                  listening.endpoint);
  return Status::ok();
}

void Session::meet_peers(mesh::PeerConnections connections, mesh::Place place) {
  mesh::Channels::Bounds bounds{parts_.tasks.peer_bounds(parts_.node), {}};
  // Of the first group the other stages send node 0 what it evaluates.
  const bool evaluates = reduces_ != nullptr && parts_.node == NodeId(0);
  for (std::uint32_t node = 0; evaluates && node < config_.pipeline.stages; ++node) {
    bounds.parameters.push_back(parts_.tasks.trained_by(NodeId(node)).size());
  }
  place.shares = config_.cluster.shared_memory != SharedMemory::kOff;
  channels_ =
      mesh::Channels::over(std::move(connections), std::move(place), stop_channels_, std::move(bounds));
  parts_.tasks.meet(channels_);
}

// Of the nodes that this one is connected to, the one that went first.
std::optional<NodeId> Session::gone() const {
  if (unmet_) return unmet_;
  const auto of_sum = reduces_ != nullptr ? reduces_->gone() : std::nullopt;
  return of_sum || channels_ == nullptr ? of_sum : channels_->gone();
}

// Its connections to the others stand until they know, too, a lease at most: to them it would be gone as well, and so
// they would name it. How the run ended.
Status Session::leave_for_another(const Status& why) {
  const std::optional<NodeId> lost = gone();
  client_.leave(why, lost);
  if (!lost || client_.lost() != Lost::kNothing) return why;
  const std::optional<Status> over = client_.run_over(config_.cluster.lease);
  return over && !over->is_ok() ? *over : why;
}

}  // namespace paceline
