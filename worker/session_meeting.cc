// How the nodes of a session that talk to each other meet: each tells the authority where it listens, hears where all others do,
// and connects to them (worker/mesh/).
#include <chrono>
#include <utility>

#include "worker/session.h"

namespace paceline {

// Without a key of its formation a node of a run with keys would talk in clear.
Status Session::check_key(const mesh::Place& place) const {
  const bool has_keys = !config_.security.keys.empty();
  if (place.key.has_value() == has_keys) return Status::ok();
  return failed_precondition(
      has_keys
          ? "the authority gave no key for what nodes say to each other, and this run has security.keys"
          : "the authority gave a key for what nodes say to each other, and this node has no security.keys");
}

// Where nodes talk to each other: every one knows every other one.
Status Session::meet_nodes() {
  if (!nodes_are_connected(config_)) return Status::ok();
  PACELINE_ASSIGN_OR_RETURN(const std::string address,
                            mesh::address_towards(config_.cluster.endpoints.front()));
  PACELINE_ASSIGN_OR_RETURN(const mesh::Listening listening, mesh::listen_at(address));
  wire::Peers own;
  own.endpoints = {listening.endpoint};
  PACELINE_ASSIGN_OR_RETURN(wire::Peers peers,
                            client_.exchange_endpoints(std::move(own), config_.cluster.start_timeout));
  mesh::Place place{parts_.node.value, std::move(peers.endpoints), peers.token};
  place.key = peers.key;
  PACELINE_RETURN_IF_ERROR(check_key(place));
  PACELINE_RETURN_IF_ERROR(reduces_ != nullptr ? begin_reducing(listening, std::move(place))
                                               : meet_peers(listening, std::move(place)));
  parts_.log.info("node " + to_string(parts_.node) + " is connected to " +
                  std::to_string(config_.cluster.nodes - 1) + " other node(s), and listens at " +
                  listening.endpoint);
  return Status::ok();
}

Status Session::meet_peers(const mesh::Listening& listening, mesh::Place place) {
  const auto within = std::chrono::duration_cast<std::chrono::milliseconds>(config_.cluster.start_timeout);
  PACELINE_ASSIGN_OR_RETURN(channels_, mesh::Channels::connect(listening, std::move(place), stop_channels_,
                                                               within, parts_.tasks.heard_from(parts_.node)));
  parts_.tasks.meet(channels_);
  return Status::ok();
}

// Of the nodes that this one is connected to, the one that went first.
std::optional<NodeId> Session::gone() const {
  if (reduces_ != nullptr) return reduces_->gone();
  return channels_ != nullptr ? channels_->gone() : std::nullopt;
}

}  // namespace paceline
