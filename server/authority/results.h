// The files that the end of a run leaves in its folder, besides its curve.
#pragma once

#include <filesystem>

#include "common/status.h"

namespace paceline::server {

inline constexpr const char* kResults[] = {"summary.json",  "phases.csv",   "phases_histogram.csv",
                                           "staleness.csv", "progress.csv", "model.bin",
                                           "trace.json"};

// The run in this folder goes on: what an end of it said is no longer so, and what its processes have
// recorded (the parts of a trace) neither. Its log, curve and checkpoints stay. Errors: kUnavailable a file
// cannot be removed; the others have been. Thread: any.
[[nodiscard]] Status forget_results(const std::filesystem::path& run);

}  // namespace paceline::server
