// Who may say what to a shard, and which function of its service it is for.
#include <string>
#include <utility>
#include <variant>

#include "server/shard_service.h"

namespace paceline::server {

// What a node may say to a shard.
struct ShardService::OfNode {
  ShardService& shard;
  Peer from;
  wire::Message& message;

  Status operator()(const wire::Push& push) const { return shard.on(from, push, std::move(message.payload)); }
  Status operator()(const wire::Withdraw& withdraw) const { return shard.on(from, withdraw); }
  Status operator()(const wire::Pull& pull) const { return shard.on(from, pull); }
  Status operator()(const wire::InitialParameters& piece) const {
    return shard.on(from, piece, message.payload);
  }
  Status operator()(const wire::NodeState& piece) const {
    return shard.node_states_.on(from, piece, message.payload, shard.shard_, shard.layout_hash_);
  }
  Status operator()(const wire::StateWanted&) const {
    shard.node_states_.wanted(from);
    if (shard.shard_) shard.answer_ready();
    return Status::ok();
  }
  template <typename Other>
  Status operator()(const Other&) const {
    return invalid_argument(std::string(wire::name_of(message.body)) + " from " + to_string(from) +
                            " to shard " + to_string(shard.id_) + ": not for a shard");
  }
};

// What the authority may. Errors: of what a shard that agrees with it would have done.
struct ShardService::OfAuthority {
  ShardService& shard;
  Peer from;
  const wire::Body& body;

  Status operator()(const wire::ApplyDecision& decision) const { return shard.on_decision(decision); }
  Status operator()(const wire::DiscardGradient& discard) const {
    if (!shard.shard_) return Status::ok();
    shard.shard_->discard(discard.worker, discard.clock);
    shard.announce_withheld();
    return Status::ok();
  }
  Status operator()(const wire::NodeLost& lost) const {
    shard.on_lost(lost.node);
    return Status::ok();
  }
  Status operator()(const wire::Release& release) const {
    if (!shard.shard_) return Status::ok();
    shard.shard_->release(release.version);
    shard.released_in_replies_ = shard.replies_.exact() > 0;
    return Status::ok();
  }
  Status operator()(const wire::ForgetSaved& forget) const {
    if (shard.checkpoints_ != nullptr) shard.checkpoints_->forget(forget.oldest_kept, forget.spared);
    return Status::ok();
  }
  Status operator()(const wire::Pull& pull) const {
    if (const Status status = shard.on(from, pull); !status.is_ok()) shard.refuse(from, status);
    return Status::ok();
  }
  template <typename Other>
  Status operator()(const Other&) const {
    return failed_precondition(std::string(wire::name_of(body)) + " from the authority to shard " +
                               to_string(shard.id_) + ": not for a shard");
  }
};

Status ShardService::handle(Peer from, wire::Message message) {
  if (!from.is_node()) {
    if (!must_wait(message.body)) return std::visit(OfAuthority{*this, from, message.body}, message.body);
    postponed_.push_back(std::move(message));
    return Status::ok();
  }
  const Status status = nodes_[from.number].lost ? failed_precondition(to_string(from) + " was declared lost")
                                                 : std::visit(OfNode{*this, from, message}, message.body);
  if (!status.is_ok()) refuse(from, status);
  return Status::ok();
}

}  // namespace paceline::server
