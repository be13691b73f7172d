// What a shard takes, what it does when a decision comes, and what it refuses.
#include "server/store/shard.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "common/params/non_finite.h"

namespace paceline::server {
namespace {

std::int64_t block_count(const ShardSettings& settings, Range range) {
  return (range.size() + settings.block_floats - 1) / settings.block_floats;
}

// A peer cuts its gradient into frames of cluster.frame_bytes, as we do. It may be set up with smaller ones,
// but not with so small ones that the bookkeeping outweighs the gradient.
constexpr std::int64_t kPiecesPerBlockMax = 64;

std::size_t pieces_max(const ShardSettings& settings, Range range) {
  return static_cast<std::size_t>(kPiecesPerBlockMax * (1 + block_count(settings, range)));
}

ShardSettings for_range(ShardSettings settings, const Layout& layout, Range range) {
  settings.factors = FactorRanges(layout, settings.optimizer, range);
  return settings;
}

}  // namespace

Shard::Shard(ShardId id, Range range, const Layout& layout, ShardSettings settings)
    : id_(id),
      range_(range),
      layout_(layout),
      settings_(for_range(std::move(settings), layout, range)),
      pool_(settings_.block_floats, static_cast<std::size_t>(block_count(settings_, range)),
            settings_.memory),
      gradients_(settings_.cluster, range.size(), settings_.gradients_max, pieces_max(settings_, range),
                 settings_.gradient_encoding),
      backups_(settings_.cluster.nodes),
      next_(settings_, range.size(), pool_) {
  now_.blocks = BlockRange(pool_, range.size());
  now_.applied.assign(settings_.cluster.workers(), Clock(0));
}

Status Shard::initialize(const wire::InitialParameters& piece, std::span<const float> values) {
  const std::string what = "initial parameters of shard " + to_string(id_);
  if (ready()) return failed_precondition(what + ": they are here already");
  if (piece.offset != initialized_) {
    const std::string gap =
        what + ": piece at " + std::to_string(piece.offset) + ", expected " + std::to_string(initialized_);
    return piece.offset < initialized_ ? out_of_order(gap) : failed_precondition(gap);
  }
  const auto floats = static_cast<std::int64_t>(values.size());
  const std::int64_t end = piece.offset + floats;
  if (end > range_.size() || piece.last != (end == range_.size())) {
    return invalid_argument(what + ": floats [" + std::to_string(piece.offset) + ", " + std::to_string(end) +
                            ")" + (piece.last ? " as the last piece" : "") +
                            ", expected the range to end at " + std::to_string(range_.size()));
  }
  now_.blocks.copy_from(piece.offset, values, pool_);
  initialized_ = end;
  if (piece.last) {
    now_.version = Version(0);
    now_.revision = Revision(0);
    replaced_with_ = Version(0);
  }
  return Status::ok();
}

namespace {

// Whether all of [0, size) is there now.
bool add_to(std::map<std::int64_t, std::int64_t>& ranges, Range more, std::int64_t size) {
  auto next = ranges.lower_bound(more.begin);
  if (next != ranges.begin() && std::prev(next)->second >= more.begin) --next;
  while (next != ranges.end() && next->first <= more.end) {
    more = {std::min(more.begin, next->first), std::max(more.end, next->second)};
    next = ranges.erase(next);
  }
  if (more.size() > 0) ranges.emplace(more.begin, more.end);
  return size == 0 || (ranges.size() == 1 && ranges.begin()->first == 0 && ranges.begin()->second == size);
}

}  // namespace

Result<bool> Shard::replace(const wire::NodeState& piece, std::span<const float> values) {
  const std::string what = "state of version " + to_string(piece.version) + " for shard " + to_string(id_);
  if (!ready() || !settings_.replaced) return failed_precondition(what + ": this shard's is its own");
  const std::int64_t size = range_.size();
  const int vectors = state_vectors(settings_.optimizer.kind);
  const Version newest = std::max(replaced_with_, replacing_.version);
  if (piece.version == replaced_with_ || piece.version < newest) return false;
  const std::int64_t vector = size == 0 ? 0 : piece.offset / size;
  const std::int64_t within = piece.offset - vector * size;
  const auto floats = static_cast<std::int64_t>(values.size());
  if (vector > vectors || within + floats > size) {
    return invalid_argument(what + ": floats [" + std::to_string(piece.offset) + ", " +
                            std::to_string(piece.offset + floats) + "), expected of " +
                            std::to_string(1 + vectors) + " vectors of " + std::to_string(size));
  }
  BlockPool pool(settings_.block_floats, 0);
  if (piece.version > replacing_.version) {
    replacing_ = {piece.version, {}, {}};
    for (int i = 0; i < vectors; ++i) replacing_.vectors.emplace_back(pool, size);
    replaced_with_ = kNoVersion;
  }
  BlockRange& into = vector == 0 ? now_.blocks : replacing_.vectors[static_cast<std::size_t>(vector - 1)];
  into.copy_from(within, values, vector == 0 ? pool_ : pool);
  if (!add_to(replacing_.here, {piece.offset, piece.offset + floats}, size * (1 + vectors))) return false;
  OptimizerImage image{piece.version.value, {}, {}};
  if (vectors > 0) image.first = std::move(replacing_.vectors[0]);
  if (vectors > 1) image.second = std::move(replacing_.vectors[1]);
  replacing_ = {};
  PACELINE_RETURN_IF_ERROR(next_.restore(now_.revision, std::move(image), {}).with_context(what));
  replaced_with_ = piece.version;
  return true;
}

void Shard::reconnected(NodeId node) {
  drop_partial(node);
  gradients_.copy_borrowed(node);
  backups_.reconnected(node);
  if (node == NodeId(0) && !ready()) initialized_ = 0;
}

ShardImage Shard::image() {
  PACELINE_ASSERT(ready(), "an image of shard " + to_string(id_) + " before the initial parameters");
  return {now_.version, now_.revision, next_sequence_, now_.blocks, next_.optimizer(), next_.mean_square()};
}

Status Shard::restore(ShardImage image) {
  const std::string what = "checkpoint for shard " + to_string(id_);
  if (ready() || initialized_ > 0) return failed_precondition(what + ": it has parameters already");
  if (image.parameters.size() != range_.size()) {
    return invalid_argument(what + ": " + std::to_string(image.parameters.size()) + " parameters, expected " +
                            std::to_string(range_.size()));
  }
  if (image.version < Version(0) || image.revision < Revision(0) || image.decisions < 0) {
    return invalid_argument(what + ": version " + to_string(image.version) + ", revision " +
                            to_string(image.revision) + ", " + std::to_string(image.decisions) +
                            " decisions, expected none below 0");
  }
  PACELINE_RETURN_IF_ERROR(
      next_.restore(image.revision, std::move(image.optimizer), std::move(image.mean_square))
          .with_context(what));
  // Copied, since they are to lie where replies can be shared from.
  for (std::int64_t i = 0; i < image.parameters.block_count(); ++i) {
    now_.blocks.copy_from(image.parameters.elements(i).begin, image.parameters.block(i), pool_);
    image.parameters.replace(i, BlockRef());
  }
  now_.version = image.version;
  now_.revision = image.revision;
  replaced_with_ = image.version;
  now_.applied.assign(now_.applied.size(), Clock(image.version.value));
  next_sequence_ = image.decisions;
  return Status::ok();
}

Result<std::optional<wire::GradientArrived>> Shard::push(const wire::Push& push, wire::Payload payload,
                                                         Prepare prepare) {
  if (!ready()) {
    return failed_precondition("push from worker " + to_string(push.worker) + " to shard " + to_string(id_) +
                               " before the initial parameters");
  }
  if (compensates() && settings_.cluster.contains(push.worker) &&
      backups_.find(push.worker, push.computed_revision) == nullptr) {
    return failed_precondition("push from worker " + to_string(push.worker) + " stamped " +
                               to_string(push.clock) + ": computed with revision " +
                               to_string(push.computed_revision) + ", which shard " + to_string(id_) +
                               " has not sent it, or not lately");
  }
  const std::int64_t floats = payload.count();
  PACELINE_ASSIGN_OR_RETURN(Gradient* const whole, gradients_.add(push, std::move(payload)));
  next_.arrived(push, floats);
  if (whole == nullptr) return std::optional<wire::GradientArrived>();
  if (gradients_.is_late(push.worker, push.clock)) {
    const std::int64_t samples = whole->samples();
    discard(push.worker, push.clock);
    return std::optional(wire::GradientArrived{id_, push.worker, push.clock, samples, ""});
  }
  if (prepare == Prepare::kWhole) next_.prepare_whole(*whole, now_.blocks, now_.version, gradients_);
  next_.check_rest_finite(*whole);
  wire::GradientArrived arrived{id_, push.worker, push.clock, whole->samples(), ""};
  if (const auto element = whole->non_finite()) {
    arrived.fault = describe_non_finite(whole->at(*element), range_.begin + *element, layout_);
  }
  return std::optional(std::move(arrived));
}

Status Shard::check(const wire::ApplyDecision& decision) const {
  const std::string what = "decision " + std::to_string(decision.sequence) + " at shard " + to_string(id_);
  if (!ready()) return failed_precondition(what + ": the initial parameters are not here");
  if (decision.sequence != next_sequence_) {
    return out_of_order(what + ": expected decision " + std::to_string(next_sequence_));
  }
  for (const wire::Contribution& c : decision.contributions) {
    if (c.samples <= 0) {
      return failed_precondition(what + ": worker " + to_string(c.worker) + " contributes no samples");
    }
    if (gradients_.find(c.worker, c.clock) == nullptr) {
      return failed_precondition(what + ": the gradient of worker " + to_string(c.worker) + " stamped " +
                                 to_string(c.clock) + " is not here");
    }
  }
  for (const wire::Contribution& c : decision.skipped) {
    if (!settings_.cluster.contains(c.worker)) {
      return failed_precondition(what + ": there is no worker " + to_string(c.worker));
    }
  }
  if (decision.retain && retained_.size() >= kRetainedMax) {
    return failed_precondition(what + ": " + std::to_string(retained_.size()) +
                               " versions are retained already");
  }
  if (decision.version_after < now_.version || decision.revision_after < now_.revision) {
    return failed_precondition(what + ": version " + to_string(decision.version_after) + " and revision " +
                               to_string(decision.revision_after) + " are older than " +
                               to_string(now_.version) + " and " + to_string(now_.revision));
  }
  return Status::ok();
}

Status Shard::apply(const wire::ApplyDecision& decision) {
  PACELINE_RETURN_IF_ERROR(check(decision));
  next_.apply(decision, gradients_, now_.blocks, backups_);
  const auto closes = [this](const wire::Contribution& c) {
    Clock& applied = now_.applied[settings_.cluster.rank_of(c.worker).value];
    applied = std::max(applied, c.clock.next());
  };
  for (const wire::Contribution& c : decision.contributions) {
    closes(c);
    gradients_.discard(c.worker, c.clock);
  }
  for (const wire::Contribution& c : decision.skipped) closes(c);
  now_.version = decision.version_after;
  now_.revision = decision.revision_after;
  if (decision.retain) retained_.push_back(now_);
  ++next_sequence_;
  return Status::ok();
}

const Snapshot* Shard::retained(Version version) const {
  for (auto it = retained_.rbegin(); it != retained_.rend(); ++it) {
    if (it->version == version) return &*it;
  }
  return nullptr;
}

void Shard::release(Version version) {
  std::erase_if(retained_, [version](const Snapshot& s) { return s.version == version; });
}

std::vector<Clock> Shard::applied_of(const Snapshot& snapshot, Cluster cluster, NodeId node) {
  if (node.value >= cluster.nodes) return {};
  const auto first = snapshot.applied.begin() + static_cast<std::ptrdiff_t>(cluster.rank_of({node, 0}).value);
  return {first, first + static_cast<std::ptrdiff_t>(cluster.threads_per_node)};
}

}  // namespace paceline::server
