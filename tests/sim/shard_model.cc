#include "tests/sim/shard_model.h"

#include <utility>

namespace paceline::test {

namespace {

constexpr std::size_t kGradientsMax = 64;  // of a worker: more than it may lead by

}  // namespace

ShardModel::ShardModel(ShardId id, Cluster cluster, std::int64_t clocks, Violations& violations,
                       Version version, Revision revision)
    : id_(id),
      cluster_(cluster),
      violations_(violations),
      counts_(std::make_shared<Counts>(cluster.workers(), clocks)),
      applied_(cluster.workers(), Clock(version.value)),
      version_(version),
      revision_(revision),
      gradients_(cluster, kFloatsOfAShard, kGradientsMax, kFloatsOfAShard) {}

void ShardModel::violation(const std::string& what) const {
  violations_.push_back("shard " + to_string(id_) + ": " + what);
}

// As Shard does (server/store).
std::optional<wire::GradientArrived> ShardModel::takes(const wire::Push& push, const wire::Payload& payload) {
  const Result<server::Gradient*> taken = gradients_.add(push, payload);
  if (!taken.is_ok() && taken.status().code() != StatusCode::kOutOfOrder) violation(taken.status().message());
  if (!taken.is_ok() || *taken == nullptr) return std::nullopt;
  server::Gradient& whole = **taken;
  for (std::int64_t piece = 0; piece < whole.piece_count(); ++piece) whole.check_finite(piece);
  wire::GradientArrived arrived{id_, push.worker, push.clock, push.samples,
                                whole.non_finite() ? "conv1.weight" : ""};
  if (gradients_.is_late(push.worker, push.clock)) gradients_.discard(push.worker, push.clock);
  return arrived;
}

void ShardModel::reconnected(NodeId node) {
  gradients_.drop_partial(node);
  gradients_.copy_borrowed(node);
  std::erase_if(waiting_, [node](const WaitingPull& pull) { return pull.node == node; });
}

void ShardModel::receives(const wire::Message& message) {
  if (const auto* decision = std::get_if<wire::ApplyDecision>(&message.body)) apply(*decision);
  if (const auto* discard = std::get_if<wire::DiscardGradient>(&message.body))
    gradients_.discard(discard->worker, discard->clock);
  if (const auto* lost = std::get_if<wire::NodeLost>(&message.body)) reconnected(lost->node);
}

void ShardModel::apply(const wire::ApplyDecision& apply) {
  if (apply.sequence != next_decision_++) violation("a decision is missing, or comes twice");
  counts_ = std::make_shared<Counts>(*counts_);  // snapshots already given away stay as they are
  for (const wire::Contribution& c : apply.contributions) {
    const std::string who = to_string(c.worker) + "@" + to_string(c.clock);
    if (!gradients_.discard(c.worker, c.clock))
      violation("told to apply " + who + ", which it does not hold whole");
    const Rank rank = cluster_.rank_of(c.worker);
    if (++counts_->of(rank, c.clock) > 1) violation("applies " + who + " twice");
    applied_[rank.value] = c.clock.next();
  }
  for (const wire::Contribution& s : apply.skipped)
    applied_[cluster_.rank_of(s.worker).value] = s.clock.next();
  version_ = apply.version_after;
  revision_.value += static_cast<std::int64_t>(apply.contributions.size());
  if (revision_ != apply.revision_after)
    violation("revision " + to_string(revision_) + " is not the authority's");

  std::vector<WaitingPull> still;
  for (WaitingPull& pull : waiting_) {
    if (pull.min_version <= version_) {
      pull.answer(answer_for(pull.node));
    } else {
      still.push_back(std::move(pull));
    }
  }
  waiting_ = std::move(still);
}

void ShardModel::pull(NodeId node, Version min_version, std::function<void(SliceAnswer)> answer) {
  if (min_version <= version_) {
    answer(answer_for(node));
  } else {
    waiting_.push_back({node, min_version, std::move(answer)});
  }
}

SliceAnswer ShardModel::answer_for(NodeId node) const {
  SliceAnswer answer;
  answer.stamp.version = version_;
  answer.stamp.revision = revision_;
  for (std::uint32_t t = 0; t < cluster_.threads_per_node; ++t) {
    answer.stamp.applied.push_back(applied_[cluster_.rank_of(WorkerId(node, t)).value]);
  }
  answer.counts = counts_;
  return answer;
}

void ShardModel::check_empty() const {
  if (gradients_.held() > 0)
    violation("still holds " + std::to_string(gradients_.held()) + " gradients at the end");
}

}  // namespace paceline::test
