#include "worker/train/batch_limits.h"

#include <limits>
#include <string>

namespace paceline {
namespace {

// Iterations (with local steps, rounds) that anybody may be granted. With backup workers a clock applies fewer than
// it has; under a pool those are given out again, but no clock then has more.
std::int64_t iterations_max(const RunConfig& config) {
  const std::int64_t workers = config.cluster.cluster().workers();
  const bool backup = config.sync.policy == PolicyKind::kBackup;
  const std::int64_t applied = backup ? workers - config.sync.backup_workers : workers;
  const std::int64_t clocks = (config.train.rounds() + applied - 1) / applied;
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  return clocks > kMax / workers ? kMax : clocks * workers;
}

}  // namespace

BatchLimits batch_limits(const RunConfig& config) {
  const std::int64_t equal = config.train.round_samples();
  const std::int64_t iterations = iterations_max(config);
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  BatchLimits limits{
      .least = equal, .most = equal, .end = iterations > kMax / equal ? kMax : iterations * equal};
  if (config.exchange.kind == ExchangeKind::kAllreduce && config.pipeline.enabled())
    limits.counted_for = "pipeline.stages; a PyTorch loader takes drop_last=True";
  if (config.train.sizing() == BatchSizing::kEqual) return limits;
  const bool of_rounds = config.train.local_balance != BatchSizing::kEqual;
  limits.multiple_of = of_rounds ? config.train.batch_size : 1;
  limits.least = limits.multiple_of;
  limits.most = config.cluster.cluster().workers() * equal;
  limits.counted_for = of_rounds ? "train.local_balance: speed" : "train.batch_balance: speed";
  return limits;
}

Status BatchLimits::check_granted(const BatchPart& granted) const {
  if (granted.samples < least || granted.samples > most) {
    return failed_precondition("granted " + std::to_string(granted.samples) + " samples, expected " +
                               std::to_string(least) + " to " + std::to_string(most));
  }
  if (granted.samples % multiple_of != 0) {
    return failed_precondition("granted " + std::to_string(granted.samples) +
                               " samples, expected a multiple of " + std::to_string(multiple_of));
  }
  if (granted.position < 0 || granted.position > end - granted.samples) {
    return failed_precondition("granted the samples from position " + std::to_string(granted.position) +
                               " on, expected [0, " + std::to_string(end) + ")");
  }
  return Status::ok();
}

Status BatchLimits::check_counted(const BatchPart& granted, const Metric& metric) const {
  if (counted_for == nullptr || metric.samples == granted.samples) return Status::ok();
  return invalid_argument("the task computed from " + std::to_string(metric.samples) + " samples, expected " +
                          std::to_string(granted.samples) + " as granted (" + counted_for + ")");
}

}  // namespace paceline
