#include "common/sync/running_iteration.h"

#include <cmath>

#include "common/sync/test_hooks.h"

namespace paceline::sync {

void RunningIteration::begin(std::int64_t iteration, Version min_version) {
  *this = RunningIteration(shards_);
  iteration_ = iteration;
  min_version_ = min_version;
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
  if ((arrived_ & shard) != 0 && !broken(Mutant::kDuplicateArrivalCounts)) {
    return out_of_order("shard " + to_string(arrival.shard) + " already holds it");
  }
  if (reported_ && empty_) return out_of_order("it was reported empty");
  if (arrival.weight < 1) {
    return invalid_argument("weight: got " + std::to_string(arrival.weight) + ", expected 1 or more");
  }
  if (arrivals_ > 0 && arrival.weight != weight_) {
    return invalid_argument("weight: got " + std::to_string(arrival.weight) + " from shard " +
                            to_string(arrival.shard) + ", expected " + std::to_string(weight_) +
                            " as from the others");
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
  if (!report.empty && (metric.samples < 1 || metric.correct < 0 || metric.correct > metric.samples)) {
    return invalid_argument("metric: got " + std::to_string(metric.correct) + " correct of " +
                            std::to_string(metric.samples) + " samples");
  }
  if (!report.empty && arrivals_ > 0 && metric.samples != weight_) {
    return invalid_argument("metric: got " + std::to_string(metric.samples) + " samples, expected " +
                            std::to_string(weight_) + " as its gradient has");
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
  reported_ = true;
  empty_ = report.empty;
  metric_ = report.metric;
  computed_version_ = report.computed_version;
  computed_revision_ = report.computed_revision;
  note(report.fault);
  if (report.empty) note("empty iteration");
  if (!std::isfinite(report.metric.loss_sum)) note("loss");
  return Status::ok();
}

bool RunningIteration::complete() const {
  if (broken(Mutant::kClockMovesBeforeShards)) return reported_;
  return reported_ && (empty_ || whole());
}

}  // namespace paceline::sync
