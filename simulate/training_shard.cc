#include "simulate/training_shard.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace paceline::simulate {
namespace {

server::ShardSettings settings_of(const RunConfig& config) {
  server::ShardSettings settings = server::shard_settings(config);
  // Real shards withhold the news of a gradient while decisions about older ones are under way. Here
  // decisions may be as late as the configuration makes them.
  settings.gradients_max = std::numeric_limits<std::size_t>::max();
  settings.apply_threads = 1;  // the simulator is one thread; the bits are the same
  return settings;
}

// Of a shard's pieces what lies in floats [part.begin, part.end) of it.
std::vector<SlicePiece> in_part(const std::vector<SlicePiece>& pieces, Range part) {
  std::vector<SlicePiece> found;
  for (SlicePiece piece : pieces) {
    const std::int64_t begin = std::max(piece.offset, part.begin);
    const std::int64_t end = std::min(piece.offset + piece.payload.count(), part.end);
    if (begin >= end) continue;
    piece.payload.data += static_cast<std::size_t>(begin - piece.offset) * sizeof(float);
    piece.payload.size = static_cast<std::size_t>(end - begin) * sizeof(float);
    piece.offset = begin - part.begin;
    found.push_back(std::move(piece));
  }
  return found;
}

}  // namespace

TrainingShard::TrainingShard(ShardId id, Range range, const Layout& layout, const RunConfig& config,
                             std::span<const float> initial)
    : cluster_(config.cluster.cluster()),
      encoder_{config.cluster.parameter_encoding},
      shard_(id, range, layout, settings_of(config)),
      decoded_(shard_.now().blocks.block_floats(),
               static_cast<std::size_t>(shard_.now().blocks.block_count())),
      last_answers_(cluster_.nodes) {
  const Status ready = shard_.initialize({0, /*last=*/true}, initial);
  PACELINE_ASSERT(ready.is_ok(), ready.message());
}

Result<std::string> TrainingShard::push(wire::Push push, std::vector<EncodedFrame> frames) {
  const std::int64_t samples = std::exchange(push.samples, 0);
  std::string fault;
  for (EncodedFrame& frame : frames) {
    push.offset = frame.offset;
    push.last = frame.offset == 0;
    push.samples = push.last ? samples : 0;
    PACELINE_ASSIGN_OR_RETURN(auto arrived, shard_.push(push, std::move(frame.payload)));
    if (arrived) fault = std::move(arrived->fault);
  }
  return fault;
}

std::shared_ptr<const Slice> TrainingShard::answer(NodeId node, Version version, Revision revision,
                                                   Range part) {
  const server::Snapshot& current = shard_.now();
  if (!in_replies_ || in_replies_->state.revision != revision) {
    PACELINE_ASSERT(current.revision == revision,
                    "an answer of revision " + to_string(revision) + " at " + to_string(current.revision));
    in_replies_.emplace();
    in_replies_->state = current;
    in_replies_->pieces = pieces_of(current.blocks);
  } else if (in_replies_->state.version < version) {
    in_replies_->state.version = version;  // the same parameters under a newer name
    in_replies_->state.applied = current.applied;
  }
  hold(node, version, in_replies_->state);
  shard_.sent(node, in_replies_->state);
  const std::vector<Clock> applied = server::Shard::applied_of(in_replies_->state, cluster_, node);
  return std::make_shared<const Slice>(Slice{
      part,
      {in_replies_->state.version, revision, applied},
      in_part(in_replies_->pieces, {part.begin - shard_.range().begin, part.end - shard_.range().begin})});
}

std::vector<Clock> TrainingShard::confirm(NodeId node, Version version, Revision revision) {
  if (shard_.now().revision == revision) hold(node, version, shard_.now());
  const LastAnswer& last = last_answers_[node.value];
  PACELINE_ASSERT(last.revision == revision, "node " + to_string(node) + " has revision " +
                                                 to_string(last.revision) + ", not " + to_string(revision));
  return last.applied;
}

void TrainingShard::hold(NodeId node, Version version, const server::Snapshot& state) {
  PACELINE_ASSERT(state.version == version, "version " + to_string(state.version) + " of shard " +
                                                to_string(shard_.id()) + ", expected " + to_string(version));
  LastAnswer& last = last_answers_[node.value];
  if (state.revision < last.revision) return;
  last = {state.revision, server::Shard::applied_of(state, cluster_, node)};
}

std::vector<SlicePiece> TrainingShard::pieces_of(const BlockRange& blocks) {
  std::vector<SlicePiece> pieces;
  for (std::int64_t i = 0; i < blocks.block_count(); ++i) {
    pieces.push_back({blocks.elements(i).begin, payload_of(blocks, i)});
  }
  return pieces;
}

// As it is, or as a node has it that decodes what was encoded.
wire::Payload TrainingShard::payload_of(const BlockRange& blocks, std::int64_t i) {
  const std::span<const float> values = blocks.block(i);
  auto last = std::make_shared<BlockRef>(blocks.ref(i));
  if (encoder_.encoding != Encoding::kFp32) {
    const std::size_t bytes = encoder_.bytes_of(std::ssize(values));
    std::vector<float> encoded((bytes + sizeof(float) - 1) / sizeof(float));  // aligned as floats are
    const std::span<std::byte> sent(reinterpret_cast<std::byte*>(encoded.data()), bytes);
    encoder_.encode(values, sent);
    *last = decoded_.acquire();
    const Status decoded = decode(encoder_.encoding, sent, {last->writable_data(), values.size()});
    PACELINE_ASSERT(decoded.is_ok(), decoded.message());
  }
  const auto* const data = reinterpret_cast<const std::byte*>(last->data());
  return {std::move(last), data, values.size_bytes()};
}

}  // namespace paceline::simulate
