// The log of a node, in the run directory, before anything is written into it: one run's, one process's.
#pragma once

#include <filesystem>

#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/status.h"

namespace paceline {

// Makes config.run.out where it is missing and returns the file for the log, <run.out>/worker-<node>.log,
// which is then not there. One that is belongs to an earlier run or to a live node, and is removed only if
// `replace`
// (--force). Errors: kFailedPrecondition it is there (say --force); kUnavailable it cannot be made or
// removed.
Result<std::filesystem::path> prepare_node_log(const RunConfig& config, NodeId node, bool replace);

}  // namespace paceline
