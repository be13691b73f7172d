// The log of a node, in the run directory, before anything is written into it: one run's, one process's.
#pragma once

#include <sys/file.h>

#include <filesystem>
#include <memory>
#include <string>

#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/status.h"

namespace paceline {

// A log that no other process takes while this, or a copy of it, lives.
struct NodeLog {
  std::filesystem::path file;  // <run.out>/worker-<node>.log; there, and empty
  std::shared_ptr<const void> lock;
  std::string warning;  // not empty: it could not be locked, and why; nothing guards it
};

// flock(2), or what stands in for it.
using LockFile = int (*)(int descriptor, int operation);

// Whether the folder holds no log that this node would be refused for. Errors: kFailedPrecondition it does.
[[nodiscard]] Status check_unused(const RunConfig& config, NodeId node);

// Makes config.run.out where it is missing, and the file. One that is there belongs to an earlier run, and is
// emptied only if `replace` (--force), or to a live node, and then it is left alone whatever `replace` says.
// Where the file system has no locks, a run goes on without one.
// Errors: kFailedPrecondition it is there (say --force), or a live node's; kUnavailable it cannot be made.
Result<NodeLog> prepare_node_log(const RunConfig& config, NodeId node, bool replace,
                                 LockFile lock_file = ::flock);

}  // namespace paceline
