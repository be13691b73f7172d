// Which state a pull is answered with, and the counting of what is on its way.
#include "server/store/leaving.h"

#include <algorithm>
#include <utility>

#include "common/sync/test_hooks.h"

namespace paceline::server {

// What a payload on its way holds. The block goes first: whoever sees the counts fall may take it for free.
struct Leaving::Piece {
  BlockRef block;
  std::shared_ptr<PieceCount> of_state;
  std::shared_ptr<PieceCount> to_node;  // null: to the authority

  Piece(BlockRef b, std::shared_ptr<PieceCount> state, std::shared_ptr<PieceCount> node)
      : block(std::move(b)), of_state(std::move(state)), to_node(std::move(node)) {
    of_state->add();
    if (to_node) to_node->add();
  }
  ~Piece() {
    block.reset();
    if (to_node) to_node->let_go();
    of_state->let_go();
  }
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;
};

Leaving::Leaving(std::uint32_t nodes, std::function<void()> none_left)
    : none_left_(std::move(none_left)), exact_(std::make_shared<PieceCount>(none_left_)), readers_(nodes) {}

void Leaving::settle() {
  if (state_ && state_->pieces->value() == 0) state_.reset();
}

const Snapshot* Leaving::source(const Snapshot& now, Peer to, const wire::Pull& pull) {
  settle();
  const bool current = !state_ || state_->snapshot.revision == now.revision || pull.have == now.revision ||
                       sync::broken(sync::Mutant::kSlowReadersNotCounted);
  if (current) {
    const bool reached = now.version >= pull.min_version || sync::broken(sync::Mutant::kPullAnsweredTooSoon);
    return reached ? &now : nullptr;
  }
  const Snapshot& older = state_->snapshot;
  const Revision answered = to.is_node() ? readers_[to.number].answered : kNoRevision;
  const bool newer_for_it = older.revision > std::max(pull.have, answered);
  return newer_for_it && older.version >= pull.min_version ? &older : nullptr;
}

Leaving::Reply Leaving::begin(Peer to, const Snapshot& state) {
  if (!state_ || state_->snapshot.revision != state.revision) {
    state_ = State{state, std::make_shared<PieceCount>(none_left_)};
  } else if (state_->snapshot.version < state.version) {
    state_->snapshot = state;  // the same blocks under a newer name
  }
  if (to.is_node()) {
    Revision& answered = readers_[to.number].answered;
    answered = std::max(answered, state.revision);
  }
  return reply(to, state_->pieces);
}

Leaving::Reply Leaving::begin_exact(Peer to) { return reply(to, exact_); }

Leaving::Reply Leaving::reply(Peer to, std::shared_ptr<PieceCount> of_state) {
  Reply reply;
  reply.of_state_ = std::move(of_state);
  if (to.is_node()) {
    Reader& reader = readers_[to.number];
    reply.to_node_ = reader.pieces;
    reply.sent_ = &reader.sent;
  }
  return reply;
}

wire::Payload Leaving::Reply::piece(const Snapshot& state, std::int64_t i) const {
  const auto values = std::as_bytes(state.blocks.block(i));
  if (sent_ != nullptr) ++*sent_;
  const auto held = std::make_shared<const Piece>(state.blocks.ref(i), of_state_, to_node_);
  return {std::shared_ptr<const void>(held, values.data()), values.data(), values.size()};
}

std::vector<NodeId> Leaving::stuck(Ticks now, std::chrono::nanoseconds limit) {
  std::vector<NodeId> found;
  for (std::uint32_t n = 0; n < readers_.size(); ++n) {
    Reader& reader = readers_[n];
    const std::int64_t waiting = reader.pieces->value();
    const std::int64_t left = reader.sent - waiting;
    const bool stands = waiting > 0 && left == reader.left && reader.since;
    if (stands && now - *reader.since <= limit) continue;
    if (stands) found.push_back(NodeId(n));
    reader.left = left;
    reader.since = now;
  }
  return found;
}

void Leaving::forgive(std::chrono::nanoseconds pause) {
  for (Reader& reader : readers_) {
    if (reader.since) reader.since = *reader.since + pause;
  }
}

}  // namespace paceline::server
