#include "tests/sim/shard_model.h"

#include <utility>

namespace paceline::test {

ShardModel::ShardModel(ShardId id, Cluster cluster, std::int64_t clocks, Violations& violations,
                       Version version, Revision revision)
    : id_(id),
      cluster_(cluster),
      violations_(violations),
      counts_(std::make_shared<Counts>(cluster.workers(), clocks)),
      applied_(cluster.workers(), Clock(version.value)),
      version_(version),
      revision_(revision) {}

void ShardModel::violation(const std::string& what) {
  violations_.push_back("shard " + to_string(id_) + ": " + what);
}

void ShardModel::begin_push(WorkerId worker, Clock clock) {
  if (was_whole_.count({worker, clock}) == 0) partial_.insert({worker, clock});
}

bool ShardModel::finish_push(WorkerId worker, Clock clock) {
  if (partial_.erase({worker, clock}) == 0 || !was_whole_.insert({worker, clock}).second) return false;
  // Discarded in between: it has come, and is dropped.
  if (refused_.count({worker, clock}) == 0) whole_.insert({worker, clock});
  return true;
}

void ShardModel::rejoined(NodeId node) {
  std::erase_if(partial_, [node](const Key& key) { return key.first.node == node; });
  std::erase_if(waiting_, [node](const WaitingPull& pull) { return pull.node == node; });
}

void ShardModel::hears(const wire::Message& message) {
  if (const auto* decision = std::get_if<wire::ApplyDecision>(&message.body)) apply(*decision);
  if (const auto* discarded = std::get_if<wire::DiscardGradient>(&message.body)) discard(*discarded);
}

void ShardModel::apply(const wire::ApplyDecision& apply) {
  if (apply.sequence != next_decision_++) violation("a decision is missing, or comes twice");
  counts_ = std::make_shared<Counts>(*counts_);  // snapshots already given away stay as they are
  for (const wire::Contribution& c : apply.contributions) {
    const std::string who = to_string(c.worker) + "@" + to_string(c.clock);
    if (whole_.erase({c.worker, c.clock}) == 0)
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

void ShardModel::discard(const wire::DiscardGradient& discard) {
  const Key key{discard.worker, discard.clock};
  whole_.erase(key);
  refused_.insert(key);
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

void ShardModel::check_empty() {
  for (const Key& key : whole_) {
    violation("still holds " + to_string(key.first) + "@" + to_string(key.second) + " at the end");
  }
}

}  // namespace paceline::test
