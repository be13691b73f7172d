// A comparison of policies (compare_runs.h) as tables for the terminal, or as JSON for scripts.
#pragma once

#include <string>

#include "tools/compare_runs.h"

namespace paceline {

std::string comparison_text(const PolicyComparison& comparison);

// {"simulated": false,
//  "groups": [{"name": "ssp(3)", "differing": {"sync.refresh_clocks": "1"}, "runs": [{"run", "seed"}],
//              "split": {"compute", "apply", "wait", "network", "unaccounted", "phases": {"BATCH": s, ...}},
//              "staleness": {"clocks": {"mean", "max", "histogram": [[staleness, count], ...]},
//                            "gradients": as clocks}}],
//  "tables": [{"key": "time" | "time_to_accuracy" | "accuracy", "title", "unit",
//              "values": [{"mean", "low", "high", "by_seed": {"1": 12.5, "2": null}}],    by group
//              "pairs": [{"first": 0, "second": 1, "seeds", "mean", "low", "high", "relative", "p",
//                         "adjusted_p", "verdict", "inside_margin"}],
//              "winner": name or null, "censored": ["runs/b: ..."]}]}
// "relative": relative_change(), null where there is none; p and adjusted_p are null where the verdict is
// "no_scatter". The ends of an interval are null where there is none (one seed, or the same with each); so is
// the split of a group without a run that counts.
std::string comparison_json(const PolicyComparison& comparison);

// "undecided", "equivalent", "first_is_better", ...: as in JSON.
const char* name_of(statistics::Verdict verdict);

}  // namespace paceline
