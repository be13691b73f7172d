// What the table says of one finished point: numbers taken from its run directory.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/assert.h"
#include "common/clock.h"
#include "common/report/curve.h"
#include "common/report/run_summary.h"
#include "common/status.h"

namespace paceline::sweep {

// Columns, in this order. Times of phases and of the network are seconds for each worker: the run's total
// over nodes x threads; compute_s is COMPUTE_GRADS alone, network_s PS_APPLY_GRADS + STEP + PS_PARAM.
// Staleness is in clocks. NaN: there is no such number.
inline constexpr std::array kQuantities = {
    "iterations",       "wall_s",         "iterations_per_s", "barrier_s",
    "network_s",        "compute_s",      "batch_s",          "apply_grads_s",
    "ps_apply_grads_s", "step_s",         "ps_param_s",       "p_cache_param_s",
    "t_cache_param_s",  "pulls",          "parameter_reads",  "server_reads",
    "bytes_pushed",     "bytes_pulled",   "final_version",    "final_threshold",
    "mean_threshold",   "mean_staleness", "max_staleness",    "max_grant_gap",
    "lost_nodes",       "dropped",        "train_accuracy",   "train_loss",
    "test_accuracy",    "s_to_target"};

struct Row {
  std::vector<std::string> settings = {};  // values of the keys asked for
  std::string status;                      // of the run: ok, failed, invalid, stopped
  std::uint64_t seed = 0;
  bool faultless = true;  // ok, and no node was lost (common/report/counted.h)
  bool complete = true;   // faultless, and all iterations were done
  std::array<double, kQuantities.size()> values = {};
};

// The position of a quantity in kQuantities; one that is not there is our own bug.
constexpr std::size_t quantity(std::string_view name) {
  for (std::size_t i = 0; i < kQuantities.size(); ++i) {
    if (name == kQuantities[i]) return i;
  }
  PACELINE_ASSERT(false, "no quantity " + std::string(name));
}

// Reads <run>/config.yaml, summary.json and curve.csv. `keys`: whose values are the row's settings; they
// exist. `target`: the accuracy of s_to_target. Errors: those of load_config(), read_summary() and
// read_curve().
Result<Row> read_row(const std::filesystem::path& run, std::span<const std::string> keys,
                     std::optional<double> target);

// common/statistics/time_to_target.h of the curve's test accuracies, where there are any, and of its training
// accuracies otherwise; NaN when the target is never reached.
double seconds_to_target(std::span<const CurveRow> curve, double target);

// The threshold over time: `initial` until the first row, each row's from its seconds on, the last until
// `wall_seconds`. Infinite where any was that lasted.
double mean_threshold(Threshold initial, std::span<const CurveRow> curve, double wall_seconds);

}  // namespace paceline::sweep
