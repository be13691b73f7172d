#include "server/service/node_states.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace paceline::server {

Status NodeStates::on(Peer from, const wire::NodeState& piece, const wire::Payload& payload,
                      std::optional<Shard>& shard, std::uint64_t layout_hash) {
  if (!sends(from.node())) {
    return invalid_argument("state of the run from " + to_string(from) + ", expected it from node " +
                            to_string(speaker_) +
                            (senders_ > 1 ? " to " + std::to_string(senders_ - 1) : ""));
  }
  if (!shard) return failed_precondition("state of the run before a join");
  PACELINE_ASSIGN_OR_RETURN(const bool whole, shard->replace(piece, payload.floats()));
  if (!whole) return Status::ok();
  outbox_.send(Peer::of(kAuthority), {wire::ShardReady{id_, layout_hash, piece.version}, {}});
  save_if_whole(*shard, layout_hash);
  return Status::ok();
}

void NodeStates::wanted(Peer from) {
  if (std::find(want_.begin(), want_.end(), from) == want_.end()) want_.push_back(from);
}

void NodeStates::send_wanted(Shard& shard) {
  for (const Peer node : std::exchange(want_, {})) send(node, shard);
}

void NodeStates::send(Peer to, Shard& shard) {
  const ShardImage image = shard.image();
  std::vector<const BlockRange*> vectors = {&image.parameters};
  for (const BlockRange* vector : {&image.optimizer.first, &image.optimizer.second}) {
    if (image.version > Version(0) && vector->size() > 0) vectors.push_back(vector);
  }
  std::int64_t begin = 0;
  for (const BlockRange* const vector : vectors) {
    const std::int64_t blocks = std::max<std::int64_t>(1, vector->block_count());
    for (std::int64_t i = 0; i < blocks; ++i) {
      wire::NodeState piece{image.version, begin, vector == vectors.back() && i + 1 == blocks};
      wire::Payload payload;
      if (vector->block_count() > 0) {
        piece.offset += vector->elements(i).begin;
        const auto bytes = std::as_bytes(vector->block(i));
        payload = {std::make_shared<BlockRef>(vector->ref(i)), bytes.data(), bytes.size()};
      }
      outbox_.send(to, {piece, std::move(payload)});
    }
    begin += vector->size();
  }
}

void NodeStates::save(const wire::ApplyDecision& decision, Shard& shard, std::uint64_t layout_hash) {
  saving_ = Saving{decision.version_after, decision.revision_after, shard.next_sequence()};
  save_if_whole(shard, layout_hash);
}

void NodeStates::save_if_whole(Shard& shard, std::uint64_t layout_hash) {
  if (!saving_ || checkpoints_ == nullptr || shard.replaced_with() != saving_->version) return;
  ShardImage image = shard.image();
  image.version = saving_->version;
  image.revision = saving_->revision;
  image.decisions = saving_->decisions;
  saving_.reset();
  checkpoints_->save(std::move(image), shard.range(), layout_hash);
}

bool NodeStates::sends(NodeId node) const { return senders_ > 1 ? node.value < senders_ : node == speaker_; }

void NodeStates::reconnected(NodeId node) {
  if (sends(node)) not_saved(node, "'s connection broke while it sent its state");
}

void NodeStates::lost(NodeId node) {
  std::erase(want_, Peer::of(node));
  lost_.insert(node);
  if (sends(node)) not_saved(node, " was lost while it sent its state");
  while (lost_.contains(speaker_)) ++speaker_.value;
}

void NodeStates::not_saved(NodeId node, const std::string& why) {
  if (!saving_) return;
  outbox_.send(Peer::of(kAuthority),
               {wire::Saved{id_, saving_->version, {}, "node " + to_string(node) + why}, {}});
  saving_.reset();
}

}  // namespace paceline::server
