// The learning progress ratio (LPR): by how many per cent the training metric of one window of clocks is
// better than that of the window before. DTSSP raises its threshold while learning goes well and lowers it
// when it does not (DTSSP paper, section 3-3).
//
//   accuracy: (current - previous) / |previous| x 100        0.40 -> 0.44: +10      0.40 -> 0.38: -5
//   loss:     (previous - current) / |previous| x 100        2.0  -> 1.8:  +10      2.0  -> 2.1:  -5
//
// Positive always means progress. The paper prints (previous_accuracy - current_accuracy) / previous_accuracy
// x 100, which would be negative when the accuracy rises, while its text raises the threshold when learning
// goes well: the text is what is implemented (docs/SYNC.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "common/clock.h"
#include "common/metric.h"
#include "common/sync/modes.h"

namespace paceline::sync {

// The LPR in per cent. previous = 0 gives no ratio: any gain is +infinity, any loss -infinity, no change 0. A
// metric that is not a number gives NaN, which is neither above nor below any limit.
double learning_progress_ratio(LprMetric metric, double previous, double current);

// One closed window.
struct WindowResult {
  std::int64_t index = 0;          // k: the iterations stamped [kW, (k+1)W)
  Version begins_at;               // kW
  Version closed_at;               // (k+1)W
  double loss_mean = 0.0;          // per sample
  std::optional<double> accuracy;  // 0..1; none where nobody has counted
  std::int64_t samples = 0;        // > 0
  std::optional<double> lpr;       // per cent; none for the first window with data
};

// What an LprTracker remembers, for a checkpoint.
struct LprState {
  std::int64_t window_clocks = 1;  // W
  std::vector<Metric> open;        // the open windows, from that of the version on: of applied iterations
  std::optional<double> previous;  // the value of the last closed window that had data
};

// Gathers metrics by timestamp and closes windows by version. Weighted by samples: a window's loss is the sum
// of all losses over the sum of all samples. Memory: one entry per window between the slowest and the fastest
// worker. Thread: one.
class LprTracker {
 public:
  // `window_clocks` = W >= 1.
  LprTracker(LprMetric metric, std::int64_t window_clocks);

  // The metric of an iteration stamped `stamp`, which must not belong to a closed window.
  void add(Clock stamp, const Metric& metric);

  // The version advanced, by one, to `version`. The window that ends there, if one does; a window without
  // data is skipped: it gives no result, and the next one is compared with the last that had data.
  std::optional<WindowResult> on_version(Version version);

  std::size_t open_windows() const { return open_.size(); }

  // For a checkpoint; and back, at `version`: `state` is of a tracker with the same W.
  LprState state() const;
  void resume(Version version, const LprState& state);

 private:
  LprMetric metric_;
  std::int64_t window_clocks_;
  std::int64_t first_open_ = 0;  // index of open_[0]
  std::deque<Metric> open_;
  std::optional<double> previous_;  // the value of the last window that had data
};

}  // namespace paceline::sync
