#include "simulate/training_worker.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "common/params/non_finite.h"
#include "common/params/rates.h"
#include "common/params/vector_ops.h"
#include "worker/cache/host_vectors.h"

namespace paceline::simulate {
namespace {

// Where the next grant does not wait for it (exchange.hidden); else one.
constexpr std::size_t kUnderWay = 2;

std::optional<GradientEncoder> encoder_of(const ClusterSection& cluster, const std::vector<Range>& ranges,
                                          const std::vector<Range>& fragments) {
  if (cluster.gradient_encoding == Encoding::kFp32) return std::nullopt;
  const auto floats = std::max<std::int64_t>(1, cluster.frame_bytes / std::int64_t{sizeof(float)});
  return GradientEncoder({cluster.gradient_encoding, cluster.top_k_share.value_or(1.0)}, ranges, floats,
                         fragments);
}

}  // namespace

TrainingWorker::TrainingWorker(const Plan& plan, WorkerId id, const std::vector<Range>& ranges,
                               const Layout& layout)
    : plan_(plan),
      config_(plan.config),
      ranges_(ranges),
      cache_(config_.train.optimizer, ranges_of(plan.slices), id.thread,
             std::make_unique<HostVectors>(config_.train.optimizer, layout)),
      encoder_(encoder_of(config_.cluster, ranges, plan.fragments)) {
  next_.push.worker = id;
  next_.slices.resize(ranges.size());
  next_.frames.resize(ranges.size());
  if (config_.train.has_inner_optimizer) local_.emplace(config_.train.inner_optimizer, layout);
  if (plan.fragments.size() > 1) beside_.resize(static_cast<std::size_t>(layout.size()));
}

Result<Metric> TrainingWorker::compute(Task& task, const Step& step, const Layout& layout,
                                       BlockPool& gradients, std::string& fault) {
  PACELINE_RETURN_IF_ERROR(task.load(step));
  if (step.local_step == 0) {
    made_ = std::make_shared<BlockRef>(gradients.acquire());
    if (local_) local_->begin(cache_.parameters());
    samples_ = 0;
  }
  const std::span<float> values(made_->writable_data(), cache_.parameters().size());
  const std::span<const float> at = local_ ? local_->parameters() : cache_.parameters();
  const std::span<float> into = beside_.empty() ? values : std::span(beside_);
  PACELINE_ASSIGN_OR_RETURN(const Metric metric, task.compute(at, into, whole_at_the_end));
  gradient_ = SharedFloats();
  samples_ += metric.samples;
  const bool finite = std::isfinite(metric.loss_sum);
  if (local_ && finite) {
    local_->step(into, inner_rate(config_, step.iteration));
    if (step.local_step + 1 < step.local_steps) return metric;
    local_->delta(cache_.parameters(), values);
  }
  const std::span<const float> last = finite ? values : into;
  fault = describe_non_finite(metric, last, first_non_finite(last), layout);
  if (local_ && !fault.empty()) local_->forget();
  if (fault.empty()) {
    gradient_.owner = made_;
    gradient_.floats = values;
  }
  made_.reset();
  next_.push.clock = step.clock;
  next_.push.samples = samples_;
  next_.push.computed_version = step.version;
  next_.slices.clear();
  for (std::uint32_t i = 0; i < plan_.slices.size(); ++i) {  // of each shard the oldest
    const Revision revision = cache_.stamp().slice(ShardId(i)).revision;
    if (plan_.slices[i].shard.value == next_.slices.size()) next_.slices.push_back(revision);
    next_.slices.back() = std::min(next_.slices.back(), revision);
  }
  next_.push.own_updates = static_cast<std::int64_t>(cache_.kept());
  return metric;
}

void TrainingWorker::cut(std::int64_t n) {
  const Range part = plan_.fragments[plan_.fragments.size() - 1 - static_cast<std::size_t>(n)];
  local_->cut(part, cache_.parameters(), {made_->writable_data(), cache_.parameters().size()});
}

void TrainingWorker::apply_locally(const wire::Grant& grant) {
  cache_.apply_locally(grant.clock, gradient_, grant.learning_rate, grant.local_scale);
}

void TrainingWorker::send() {
  if (encoder_) {
    ShardParts whole;
    for (const Range& range : ranges_) whole.push_back(Range{0, range.size()});
    next_.frames = encoder_->encode(gradient_.floats, whole);
  } else {
    for (std::size_t k = 0; k < ranges_.size(); ++k) {
      const auto part = gradient_.floats.subspan(static_cast<std::size_t>(ranges_[k].begin),
                                                 static_cast<std::size_t>(ranges_[k].size()));
      const auto bytes = std::as_bytes(part);
      next_.frames[k].clear();
      next_.frames[k].push_back({0, {gradient_.owner, bytes.data(), bytes.size()}});
    }
  }
  gradient_ = SharedFloats();
  const Clock clock = next_.push.clock;
  sent_[clock] = next_;
  for (auto& frames : next_.frames) frames.clear();
  while (sent_.size() > kUnderWay) sent_.erase(sent_.begin());
}

}  // namespace paceline::simulate
