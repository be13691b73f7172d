#include "common/sync/lpr.h"

#include <cmath>
#include <limits>

#include "common/assert.h"

namespace paceline::sync {

double learning_progress_ratio(LprMetric metric, double previous, double current) {
  const double gain = metric == LprMetric::kAccuracy ? current - previous : previous - current;
  if (previous == 0.0) {
    if (gain == 0.0 || std::isnan(gain)) return gain;
    return std::copysign(std::numeric_limits<double>::infinity(), gain);
  }
  return gain / std::fabs(previous) * 100.0;
}

LprTracker::LprTracker(LprMetric metric, std::int64_t window_clocks)
    : metric_(metric), window_clocks_(window_clocks) {
  PACELINE_ASSERT(window_clocks >= 1, "an LPR window has at least one clock");
}

void LprTracker::add(Clock stamp, const Metric& metric) {
  const std::int64_t place = stamp.value / window_clocks_ - first_open_;
  PACELINE_ASSERT(place >= 0, "a metric stamped " + to_string(stamp) + " belongs to a closed window");
  while (static_cast<std::int64_t>(open_.size()) <= place) open_.emplace_back();
  open_[static_cast<std::size_t>(place)] += metric;
}

LprState LprTracker::state() const {
  return {window_clocks_, std::vector<Metric>(open_.begin(), open_.end()), previous_};
}

void LprTracker::resume(Version version, const LprState& state) {
  first_open_ = version.value / window_clocks_;
  open_.assign(state.open.begin(), state.open.end());
  previous_ = state.previous;
}

std::optional<WindowResult> LprTracker::on_version(Version version) {
  if (version.value != (first_open_ + 1) * window_clocks_) return std::nullopt;
  const std::int64_t index = first_open_++;
  if (open_.empty()) return std::nullopt;
  const Metric sums = open_.front();
  open_.pop_front();
  if (sums.samples == 0) return std::nullopt;

  WindowResult result;
  result.index = index;
  result.begins_at = Version(index * window_clocks_);
  result.closed_at = version;
  result.samples = sums.samples;
  result.loss_mean = sums.loss_sum / static_cast<double>(sums.samples);
  result.accuracy = accuracy_of(sums);
  const std::optional<double> current =
      metric_ == LprMetric::kAccuracy ? result.accuracy : std::optional(result.loss_mean);
  if (previous_ && current) result.lpr = learning_progress_ratio(metric_, *previous_, *current);
  if (current) previous_ = current;
  return result;
}

}  // namespace paceline::sync
