// Which state a pull is answered with, and the counting of what is on its way.
#include "server/store/reply_window.h"

#include <algorithm>
#include <utility>

namespace paceline::server {
namespace {

constexpr int kReplyLeases = 30;

}  // namespace

// What a payload on its way holds. The block goes first: whoever sees the counts fall may take it for free.
struct ReplyWindow::Piece {
  BlockRef block;
  std::shared_ptr<PieceCount> of_state;
  std::shared_ptr<PieceCount> of_reply;  // null: to the authority

  Piece(BlockRef b, std::shared_ptr<PieceCount> state, std::shared_ptr<PieceCount> reply)
      : block(std::move(b)), of_state(std::move(state)), of_reply(std::move(reply)) {
    of_state->add();
    if (of_reply) of_reply->add();
  }
  ~Piece() {
    block.reset();
    if (of_reply) of_reply->let_go();
    of_state->let_go();
  }
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;
};

ReplyWindow::ReplyWindow(Cluster cluster, std::int64_t missing_max, Encoding encoding,
                         std::function<void()> none_left)
    : cluster_(cluster),
      missing_max_(missing_max),
      encoder_{encoding},
      none_left_(std::move(none_left)),
      exact_(std::make_shared<PieceCount>(none_left_)),
      readers_(cluster.nodes) {}

void ReplyWindow::reap() {
  if (state_ && state_->pieces->value() == 0) state_.reset();
}

bool ReplyWindow::keeps_older(const Snapshot& now) {
  reap();
  return state_ && state_->snapshot.revision != now.revision;
}

ReplyWindow::Source ReplyWindow::source(const Snapshot& now, Peer to, const wire::Pull& pull) {
  reap();
  if (now.version < pull.min_version) return {};
  const bool current = !state_ || state_->snapshot.revision == now.revision || pull.have == now.revision;
  if (current) return {.state = &now};
  static const NodeSnapshot kNothing;  // static: Clang cannot see that what has nothing is never returned
  const NodeSnapshot& answered = to.is_node() ? readers_[to.number].answered : kNothing;
  const bool can_go_on = will_do(answered, now, to, pull);
  const Snapshot& older = state_->snapshot;
  // Each joins a state once; of a part it may have joined with another one.
  const bool is_new = pull.part ? older.revision >= answered.revision : older.revision > answered.revision;
  const bool joins = is_new && older.revision > pull.have && older.version >= pull.min_version;
  if (joins && !(state_->awaited && can_go_on)) return {.state = &older};
  if (can_go_on) return {.held = &answered};
  state_->awaited = true;
  return {};
}

bool ReplyWindow::will_do(const NodeSnapshot& held, const Snapshot& now, Peer to,
                          const wire::Pull& pull) const {
  if (held.revision == kNoRevision || held.revision != pull.have || held.version < pull.min_version) {
    return false;
  }
  const std::vector<Clock> applied = Shard::applied_of(now, cluster_, to.node());
  for (std::size_t t = 0; t < applied.size(); ++t) {
    if ((applied[t] - held.applied[t]).value > missing_max_) return false;
  }
  return true;
}

ReplyWindow::Reply ReplyWindow::begin(Peer to, const Snapshot& state) {
  if (!state_ || state_->snapshot.revision != state.revision) {
    state_ = State{state, {}, std::make_shared<PieceCount>(none_left_)};
  } else if (state_->snapshot.version < state.version) {
    state_->snapshot.version = state.version;  // the same parameters under a newer name
    state_->snapshot.applied = state.applied;
  }
  confirm(to, state);
  Reply begun = reply(to, state_->pieces);
  if (encoder_.encoding == Encoding::kFp32) {
    begun.state_ = &state_->snapshot;
  } else {
    begun.encoded_by_ = this;
  }
  return begun;
}

void ReplyWindow::reconnected(NodeId node) {
  NodeSnapshot answered = std::move(readers_[node.value].answered);
  readers_[node.value] = Reader();
  readers_[node.value].answered = std::move(answered);
}

void ReplyWindow::confirm(Peer to, const Snapshot& state) {
  if (!to.is_node()) return;
  NodeSnapshot& answered = readers_[to.number].answered;
  if (state.revision < answered.revision || state.version < answered.version) return;
  answered = {state.version, state.revision, Shard::applied_of(state, cluster_, to.node())};
}

ReplyWindow::Reply ReplyWindow::begin_exact(Peer to, const Snapshot& retained) {
  Reply begun = reply(to, exact_);
  begun.state_ = &retained;
  return begun;
}

ReplyWindow::Reply ReplyWindow::reply(Peer to, std::shared_ptr<PieceCount> of_state) {
  Reply reply;
  reply.of_state_ = std::move(of_state);
  if (to.is_node()) {
    Reader& reader = readers_[to.number];
    reader.forget_what_left();
    reply.of_reply_ = reader.replies.emplace_back().pieces;
    reply.to_ = &reader;
  }
  return reply;
}

wire::Payload ReplyWindow::Reply::piece(std::int64_t i) const {
  const EncodedBlock* const encoded = encoded_by_ == nullptr ? nullptr : &encoded_by_->encoded(i);
  const BlockRef& block = encoded == nullptr ? state_->blocks.ref(i) : encoded->bytes;
  const auto held = std::make_shared<const Piece>(block, of_state_, of_reply_);
  const auto* const bytes = reinterpret_cast<const std::byte*>(block.data());
  wire::Payload payload{std::shared_ptr<const void>(held, bytes), bytes};
  if (encoded == nullptr) {
    payload.size = state_->blocks.block(i).size_bytes();
  } else {
    payload.size = encoded->size;
    payload.encoding = encoded_by_->encoder_.encoding;
    payload.encoded_floats = encoded->floats;
  }
  if (to_ != nullptr) {
    ++to_->sent;
    to_->replies.back().bytes += static_cast<std::int64_t>(payload.size);
  }
  return payload;
}

// Block by block, so that the first is on its way while the next is encoded.
const ReplyWindow::EncodedBlock& ReplyWindow::encoded(std::int64_t i) {
  State& state = *state_;
  if (i == std::ssize(state.encoded)) {
    const BlockRange& blocks = state.snapshot.blocks;
    if (!encoded_pool_) {
      const auto bytes = static_cast<std::int64_t>(encoder_.bytes_of(blocks.block_floats()));
      const auto floats = (bytes + std::int64_t{sizeof(float)} - 1) / std::int64_t{sizeof(float)};
      encoded_pool_.emplace(floats, static_cast<std::size_t>(blocks.block_count()));
    }
    const std::span<const float> values = blocks.block(i);
    EncodedBlock block{encoded_pool_->acquire(), encoder_.bytes_of(std::ssize(values)), std::ssize(values)};
    encoder_.encode(values, {reinterpret_cast<std::byte*>(block.bytes.writable_data()), block.size});
    state.encoded.push_back(std::move(block));
    if (std::ssize(state.encoded) == blocks.block_count()) state.snapshot.blocks = BlockRange();
  }
  return state.encoded[static_cast<std::size_t>(i)];
}

std::int64_t ReplyWindow::Reader::waiting() const {
  std::int64_t pieces = 0;
  for (const Outgoing& reply : replies) pieces += reply.pieces->value();
  return pieces;
}

// The next one's time begins when the oldest has left.
void ReplyWindow::Reader::forget_what_left() {
  while (!replies.empty() && replies.front().pieces->value() == 0) {
    replies.pop_front();
    oldest_since.reset();
  }
}

bool ReplyWindow::Reader::takes_nothing(Ticks now, std::chrono::nanoseconds limit) {
  const std::int64_t here = waiting();
  const std::int64_t gone = sent - here;
  const bool stands = here > 0 && gone == left && since;
  if (stands && now - *since <= limit) return false;
  left = gone;
  since = now;
  return stands;
}

bool ReplyWindow::Reader::takes_too_long(Ticks now, std::chrono::nanoseconds lease) {
  forget_what_left();
  if (replies.empty()) return false;
  if (!oldest_since) oldest_since = now;
  if (now - *oldest_since <= reply_time(replies.front().bytes, lease)) return false;
  oldest_since = now;
  return true;
}

std::chrono::nanoseconds ReplyWindow::reply_time(std::int64_t bytes, std::chrono::nanoseconds lease) {
  const std::chrono::nanoseconds slowest = std::chrono::microseconds(bytes);  // 1 MB/s
  return std::max(kReplyLeases * lease, slowest);
}

std::vector<ReplyWindow::Reading> ReplyWindow::readings() const {
  std::vector<Reading> found;
  for (std::uint32_t n = 0; n < readers_.size(); ++n) {
    const Reader& reader = readers_[n];
    const std::int64_t here = reader.waiting();
    if (here == 0) continue;
    const bool stands = reader.sent - here == reader.left;
    found.push_back({NodeId(n), here, stands ? reader.since : std::nullopt});
  }
  return found;
}

std::vector<ReplyWindow::Stuck> ReplyWindow::stuck(Ticks now, std::chrono::nanoseconds lease) {
  std::vector<Stuck> found;
  for (std::uint32_t n = 0; n < readers_.size(); ++n) {
    Reader& reader = readers_[n];
    if (reader.takes_nothing(now, lease)) found.push_back({NodeId(n), Stuck::Why::kTakesNothing, lease});
    if (reader.takes_too_long(now, lease)) {
      const auto allowed = reply_time(reader.replies.front().bytes, lease);
      found.push_back({NodeId(n), Stuck::Why::kTakesTooLong, allowed});
    }
  }
  return found;
}

void ReplyWindow::discount_pause(const Pause& pause) {
  for (Reader& reader : readers_) {
    if (reader.since) reader.since = pause.discounted(*reader.since);
    if (reader.oldest_since) reader.oldest_since = pause.discounted(*reader.oldest_since);
  }
}

}  // namespace paceline::server
