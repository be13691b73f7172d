// The files that the end of a run leaves in its folder, besides its curve.
#pragma once

#include <filesystem>
#include <vector>

#include "common/status.h"

namespace paceline::server {

inline constexpr const char* kResults[] = {"summary.json",  "phases.csv",   "phases_histogram.csv",
                                           "staleness.csv", "progress.csv", "phases_so_far.csv",
                                           "model.bin",     "trace.json"};

// What the processes of a run have recorded, each for itself (run.trace). Errors: kUnavailable, naming the
// folder and the reason.
Result<std::vector<std::filesystem::path>> parts_of_traces(const std::filesystem::path& run);

// What processes that were killed had begun to write of these files. Errors: as above.
Result<std::vector<std::filesystem::path>> unfinished_results(const std::filesystem::path& run);

// The run in this folder goes on: what an end of it said is no longer so, and what its processes have
// recorded neither; what was begun of it is rubbish. Its log, curve and checkpoints stay. Errors:
// kUnavailable a file cannot be removed, or the folder not be read; the others have been. Thread: any.
[[nodiscard]] Status forget_results(const std::filesystem::path& run);

}  // namespace paceline::server
