#include "worker/allreduce/sharded_optimizer.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "common/assert.h"

namespace paceline {
namespace {

std::span<float> part_of(std::span<float> all, Range range) {
  return all.subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.size()));
}
std::span<const float> part_of(std::span<const float> all, Range range) {
  return all.subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.size()));
}

const BlockRange& vector_of(const OptimizerImage& image, int vector) {
  return vector == 0 ? image.first : image.second;
}

}  // namespace

ShardedOptimizer::Parts ShardedOptimizer::make(Shares shares, Version since) const {
  Parts held{std::move(shares), since, {}};
  for (const bool kept : {false, true}) {
    for (const Shares::Part& part : held.shares.parts) {
      const bool own = part.owner == held.shares.rank;
      if (kept ? own || part.keeper != held.shares.rank : !own) continue;
      held.pieces.push_back({part, kept,
                             OptimizerState(settings_, part.range.size(), part.range.size(),
                                            FactorRanges(layout_, settings_, part.range))});
    }
  }
  return held;
}

void ShardedOptimizer::set(Piece& piece, std::int64_t steps,
                           std::span<const std::span<const float>> vectors) {
  BlockPool pool(piece.part.range.size(), 0);
  OptimizerImage image{steps, {}, {}};
  for (std::size_t v = 0; v < vectors.size(); ++v) {
    BlockRange& into = v == 0 ? image.first : image.second;
    into = BlockRange(pool, piece.part.range.size());
    into.copy_from(0, vectors[v], pool);
  }
  const Status restored = piece.state.restore(std::move(image));
  PACELINE_ASSERT(restored.is_ok(), restored.message());
}

void ShardedOptimizer::begin(Shares shares, std::span<const float> state, std::int64_t steps) {
  newest_ = make(std::move(shares), Version(steps));
  if (state.empty()) return;
  const auto size = static_cast<std::size_t>(layout_.size());
  PACELINE_ASSERT(state.size() == size * static_cast<std::size_t>(vectors()),
                  std::to_string(state.size()) + " floats of an optimizer's state");
  for (Piece& piece : newest_.pieces) {
    std::vector<std::span<const float>> values;
    for (int v = 0; v < vectors(); ++v) {
      values.push_back(part_of(state.subspan(static_cast<std::size_t>(v) * size, size), piece.part.range));
    }
    set(piece, steps, values);
  }
}

void ShardedOptimizer::begin_step(Version from, double learning_rate, std::span<const float> parameters,
                                  std::span<float> sum) {
  steps_ = from;
  for (Piece& piece : newest_.pieces) {
    piece.before = piece.state.image();
    piece.state.begin_step(learning_rate);
    const std::span<float> values = part_of(sum, piece.part.range);
    const std::span<const float> before = part_of(parameters, piece.part.range);
    if (piece.state.measures()) piece.state.measure(floats_of(before), floats_of(values));
    piece.state.apply(0, before, values, values);
  }
}

void ShardedOptimizer::end_step() {
  steps_.reset();
  last_.reset();
  for (Piece& piece : newest_.pieces) piece.before.reset();
}

void ShardedOptimizer::skip_step(double learning_rate) {
  last_.reset();
  for (Piece& piece : newest_.pieces) piece.state.begin_step(learning_rate);
}

OptimizerImage ShardedOptimizer::image_of(const Piece& piece, Version version) const {
  return piece.before && steps_ == version ? *piece.before : piece.state.image();
}

// Where this node is the one that says it: an owner, or the keeper of one that is lost.
Status ShardedOptimizer::contribute_state(const Parts& from, const Shares& next, Version version, int vector,
                                          std::span<float> all) const {
  const auto is_left = [&](std::uint32_t rank) {
    return std::find(next.nodes.begin(), next.nodes.end(), from.shares.nodes[rank]) != next.nodes.end();
  };
  for (const Shares::Part& part : from.shares.parts) {
    if (is_left(part.owner) || (part.keeper != part.owner && is_left(part.keeper))) continue;
    return data_loss("the optimizer's state of node " + to_string(from.shares.nodes[part.owner]) +
                     " is lost, " +
                     (part.keeper == part.owner ? "which nobody else has"
                                                : "since node " + to_string(from.shares.nodes[part.keeper]) +
                                                      ", which has kept it, is lost as well"));
  }
  for (const Piece& piece : from.pieces) {
    if (piece.kept && is_left(piece.part.owner)) continue;
    const OptimizerImage image = image_of(piece, version);
    // A keeper is an owner as well: it has begun the step if anybody has ended it. Who has not begun one that somebody
    // is after has not heard that it is left out.
    const bool left_out = !piece.before && image.steps + 1 == version.value;
    PACELINE_ASSERT(
        image.steps == version.value || left_out,
        "the state of step " + std::to_string(image.steps) + ", expected that of " + to_string(version));
    vector_of(image, vector).copy_to(0, part_of(all, piece.part.range));
  }
  return Status::ok();
}

// One of all says each float, and the others -0, which changes the bits of none.
Result<ShardedOptimizer::Parts> ShardedOptimizer::moved_to(Shares next, Version version, std::span<float> all,
                                                           const std::function<Status()>& sum_all) const {
  const Parts& from = goes_back(version) ? *last_ : newest_;
  Parts made = make(std::move(next), version);
  std::vector<std::vector<std::vector<float>>> values(made.pieces.size());  // of each piece: its vectors
  for (int v = 0; v < vectors(); ++v) {
    std::fill(all.begin(), all.end(), -0.0F);
    PACELINE_RETURN_IF_ERROR(contribute_state(from, made.shares, version, v, all));
    PACELINE_RETURN_IF_ERROR(sum_all());
    for (std::size_t p = 0; p < made.pieces.size(); ++p) {
      const std::span<const float> part = part_of(std::span<const float>(all), made.pieces[p].part.range);
      values[p].emplace_back(part.begin(), part.end());
    }
  }
  for (std::size_t p = 0; p < made.pieces.size(); ++p) {
    const std::vector<std::span<const float>> of_piece(values[p].begin(), values[p].end());
    set(made.pieces[p], version.value, of_piece);
  }
  return made;
}

// Of what was begun who is left has made the step, or nobody has.
void ShardedOptimizer::move(Parts moved) {
  if (!goes_back(moved.since)) {
    for (Piece& piece : newest_.pieces) {
      if (piece.before && steps_ == moved.since) {
        const Status back = piece.state.restore(*piece.before);
        PACELINE_ASSERT(back.is_ok(), back.message());
      }
      piece.before.reset();
    }
    last_ = std::move(newest_);
  }
  steps_.reset();
  newest_ = std::move(moved);
}

std::vector<Range> ShardedOptimizer::parts() const {
  std::vector<Range> ranges;
  for (const Piece& piece : newest_.pieces) ranges.push_back(piece.part.range);
  return ranges;
}

void ShardedOptimizer::append_state(Version version, std::vector<float>& floats) const {
  for (int v = 0; v < vectors(); ++v) {
    for (const Piece& piece : newest_.pieces) {
      const std::size_t begin = floats.size();
      floats.resize(begin + static_cast<std::size_t>(piece.part.range.size()));
      vector_of(image_of(piece, version), v).copy_to(0, std::span(floats).subspan(begin));
    }
  }
}

}  // namespace paceline
