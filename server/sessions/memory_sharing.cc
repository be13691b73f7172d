#include "server/sessions/memory_sharing.h"

#include "common/config/run_config.h"

namespace paceline::server {

Status MemorySharing::share(const wire::PeerId& with, NodeId node) {
  if (service_.memory() == nullptr) return Status::ok();
  const Status shared =
      connections_.router().share_memory(with, service_.memory(), service_.node_memory_max());
  open_[node.value] = shared.is_ok();
  return shared.is_ok() ? shared : check(node, shared);
}

Status MemorySharing::confirm(const wire::PeerId& from, Peer peer, const wire::Body& body) {
  if (!peer.is_node() || !open_[peer.number] || std::holds_alternative<wire::Leave>(body)) {
    return Status::ok();
  }
  open_[peer.number] = false;
  return check(peer.node(), connections_.router().shares_memory(from));
}

Status MemorySharing::check(NodeId node, const Status& shared) {
  const std::string who = "node " + to_string(node);
  if (shared.is_ok() && connections_.members().moves_of(node) > 0) {
    return shared;  // it says so of each connection
  }
  if (shared.is_ok()) {
    setup_.log.info(who + " shares memory with " + setup_.name());
  } else if (setup_.config.cluster.shared_memory == SharedMemory::kOn) {
    return Status(shared).with_context("cluster.shared_memory is on, but " + who + " cannot share memory");
  } else {
    setup_.log.info(who + " shares no memory with " + setup_.name() + ": " + shared.message());
  }
  return Status::ok();
}

}  // namespace paceline::server
