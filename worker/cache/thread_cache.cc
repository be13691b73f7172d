#include "worker/cache/thread_cache.h"

#include <utility>

#include "common/params/vector_ops.h"
#include "common/sync/test_hooks.h"

namespace paceline {
namespace {

std::size_t floats_of(const std::vector<Range>& ranges) {
  return ranges.empty() ? 0 : static_cast<std::size_t>(ranges.back().end);
}

std::span<float> part(std::vector<float>& flat, const Range& range) {
  return std::span(flat).subspan(static_cast<std::size_t>(range.begin),
                                 static_cast<std::size_t>(range.size()));
}

}  // namespace

ThreadCache::ThreadCache(const OptimizerSection& optimizer, std::vector<Range> ranges, std::uint32_t thread)
    : settings_(optimizer),
      ranges_(std::move(ranges)),
      thread_(thread),
      parameters_(floats_of(ranges_)),
      stamp_(static_cast<std::uint32_t>(ranges_.size())) {}

std::size_t ThreadCache::refresh(const Snapshot& snapshot, Clock now) {
  PACELINE_ASSERT(snapshot.size() == ranges_.size(),
                  "a snapshot of " + std::to_string(snapshot.size()) + " shards");
  if (lacks_waiting(snapshot)) settle();
  waiting_.reset();
  std::size_t copied = 0;
  for (std::uint32_t k = 0; k < ranges_.size(); ++k) {
    const Slice* const slice = snapshot[k].get();
    if (slice == nullptr) continue;
    const Revision had = stamp_.slice(ShardId(k)).revision;
    if (!stamp_.install(ShardId(k), slice->stamp)) continue;
    // The same revision under a newer version's name: the values are here already, own differences included.
    if (slice->stamp.revision == had) continue;
    slice->copy_to(parameters_);
    for (const std::size_t place : own_.to_reapply(stamp_, ShardId(k), thread_)) {
      const bool newest = place + 1 == differences_.size();
      if (newest && sync::broken(sync::Mutant::kDifferenceForgotten)) continue;
      const float times = newest && sync::broken(sync::Mutant::kDifferenceTwice) ? 2.0F : 1.0F;
      paceline::accumulate(part(parameters_, ranges_[k]), part(differences_[place], ranges_[k]), times);
    }
    ++copied;
  }
  for (std::size_t dropped = own_.drop_contained(stamp_, thread_); dropped > 0; --dropped) {
    spare_ = std::move(differences_.front());
    differences_.pop_front();
  }
  taken_at_ = now;
  return copied;
}

void ThreadCache::apply_locally(Clock clock, std::shared_ptr<const std::vector<float>> gradient,
                                double learning_rate, double scale) {
  settle();
  waiting_ = OwnGradient{clock, std::move(gradient), learning_rate, scale};
  if (applies_at_once()) settle();
}

void ThreadCache::settle() {
  if (!waiting_) return;
  apply(*waiting_);
  waiting_.reset();
}

bool ThreadCache::lacks_waiting(const Snapshot& snapshot) const {
  if (!waiting_) return false;
  cache::SnapshotStamp after = stamp_;
  for (std::uint32_t k = 0; k < ranges_.size(); ++k) {
    if (snapshot[k] != nullptr) after.install(ShardId(k), snapshot[k]->stamp);
  }
  return waiting_->clock >= after.applied_everywhere(thread_);
}

void ThreadCache::apply(const OwnGradient& own) {
  if (!optimizer_) optimizer_.emplace(settings_, static_cast<std::int64_t>(parameters_.size()));
  std::vector<float> difference = std::exchange(spare_, {});
  difference.resize(parameters_.size());
  optimizer_->begin_step(own.learning_rate);
  optimizer_->apply(0, parameters_, difference, *own.values);
  subtract(difference, difference, parameters_);
  if (own.scale != 1.0) paceline::scale(difference, static_cast<float>(own.scale));
  // Added as a refresh will add it, so that both give the same bits.
  paceline::accumulate(parameters_, difference, 1.0F);
  own_.remember(own.clock);
  differences_.push_back(std::move(difference));
}

}  // namespace paceline
