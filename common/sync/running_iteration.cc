#include "common/sync/running_iteration.h"

#include <algorithm>
#include <cmath>

namespace paceline::sync {
namespace {

constexpr std::int64_t kOwnUpdatesMax = 0xFFFFFFFF;  // own_updates_ holds no more

}  // namespace

void RunningIteration::begin(std::int64_t iteration, Version min_version, std::int64_t samples) {
  RunningIteration next(shards_);
  next.iteration_ = iteration;
  next.min_version_ = min_version;
  next.weight_ = samples;
  next.computed_version_ = computed_version_;
  next.computed_revision_ = computed_revision_;
  next.own_updates_ = own_updates_;
  *this = std::move(next);
}

void RunningIteration::begin_after(const RunningIteration& before, std::int64_t iteration,
                                   Version min_version, std::int64_t samples) {
  computed_version_ = before.computed_version_;
  computed_revision_ = before.computed_revision_;
  own_updates_ = before.own_updates_;
  begin(iteration, min_version, samples);
}

const std::string& RunningIteration::fault() const {
  static const std::string none;
  return fault_ ? *fault_ : none;
}

void RunningIteration::note(const std::string& fault) {
  if (!fault_ && !fault.empty()) fault_ = std::make_unique<const std::string>(fault);
}

Status RunningIteration::add(const GradientArrived& arrival) {
  const std::uint64_t shard = std::uint64_t{1} << arrival.shard.value;
  if ((arrived_ & shard) != 0) {
    return out_of_order("shard " + to_string(arrival.shard) + " already holds it");
  }
  if (reported_ && empty_) return out_of_order("it was reported empty");
  if (arrival.weight < 1) {
    return invalid_argument("weight: got " + std::to_string(arrival.weight) + ", expected 1 or more");
  }
  if (weight_ != kAnySamples && arrival.weight != weight_) {
    return invalid_argument("weight: got " + std::to_string(arrival.weight) + " from shard " +
                            to_string(arrival.shard) + ", expected " + std::to_string(weight_) +
                            (arrivals_ > 0 ? " as from the others" : " as granted"));
  }
  if (reported_ && arrival.weight != metric_.samples) {
    return invalid_argument("weight: got " + std::to_string(arrival.weight) + " from shard " +
                            to_string(arrival.shard) + ", expected " + std::to_string(metric_.samples) +
                            " as in its report");
  }
  arrived_ |= shard;
  ++arrivals_;
  weight_ = arrival.weight;
  note(arrival.fault);
  return Status::ok();
}

Status RunningIteration::add(const StepReported& report, Version version, Revision revision) {
  if (reported_) return out_of_order("it was reported before");
  if (report.empty && arrivals_ > 0)
    return invalid_argument("reported empty, but a shard holds its gradient");
  const Metric& metric = report.metric;
  if (!report.empty && (metric.samples < 1 || !metric.counts_samples())) {
    return invalid_argument("metric: got " + std::to_string(metric.correct) + " correct of " +
                            std::to_string(metric.samples) + " samples");
  }
  if (!report.empty && weight_ != kAnySamples && metric.samples != weight_) {
    return invalid_argument("metric: got " + std::to_string(metric.samples) + " samples, expected " +
                            std::to_string(weight_) +
                            (arrivals_ > 0 ? " as its gradient has" : " as granted"));
  }
  if (report.computed_version > version || report.computed_revision > revision) {
    return invalid_argument("computed with version " + to_string(report.computed_version) + ", revision " +
                            to_string(report.computed_revision) + "; the newest are " + to_string(version) +
                            ", " + to_string(revision));
  }
  if (report.computed_version < min_version_) {
    return failed_precondition("computed with version " + to_string(report.computed_version) +
                               ", the grant asked for " + to_string(min_version_) + " or newer");
  }
  // Own gradients stamped below its version are in a snapshot.
  const std::int64_t lacking =
      std::clamp<std::int64_t>(report.clock.value - report.computed_version.value, 0, kOwnUpdatesMax);
  if (report.own_updates < 0 || report.own_updates > lacking) {
    return failed_precondition(
        "computed with " + std::to_string(report.own_updates) + " own updates besides, of which version " +
        to_string(report.computed_version) + " lacks at most " + std::to_string(lacking));
  }
  reported_ = true;
  computed_version_ = report.computed_version;
  computed_revision_ = report.computed_revision;
  own_updates_ = static_cast<std::uint32_t>(report.own_updates);
  empty_ = report.empty;
  metric_ = report.metric;
  note(report.fault);
  if (report.empty) note("empty iteration");
  if (!std::isfinite(report.metric.loss_sum)) note("loss");
  return Status::ok();
}

bool RunningIteration::complete() const { return reported_ && (empty_ || whole()); }

}  // namespace paceline::sync
