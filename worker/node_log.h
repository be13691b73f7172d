// The log of a node, in the run directory, before anything is written into it: one run's, one process's.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "common/config/daemon_options.h"
#include "common/config/run_config.h"
#include "common/files/file_lock.h"
#include "common/ids.h"
#include "common/status.h"

namespace paceline {

// What becomes of a log that is there.
enum class ExistingLog {
  kIsRefused,
  kIsReplaced,          // --force: unless its run is known here to have ended well
  kIsReplacedFinished,  // --force twice
  kIsContinued,         // --resume, --resume-or-start
};
ExistingLog existing_log(const DaemonOptions& given);

// A log that no other process takes while this, or a copy of it, lives.
struct NodeLog {
  std::filesystem::path file;  // <run.out>/worker-<node>.log; there, and empty unless continued
  std::shared_ptr<const void> lock;
  std::string warning;  // not empty: it could not be locked, and why; nothing guards it
};

// Whether the folder holds no log that this node would be refused for. Errors: kFailedPrecondition it does.
[[nodiscard]] Status check_unused(const RunConfig& config, NodeId node);

// Makes config.run.out where it is missing, and the file. One that is there belongs to an earlier process of
// this node, and `existing` says what becomes of it, or to a live one, and then it is left alone whatever
// that says. Where the file system has no locks, a run goes on without one. Errors: kFailedPrecondition it is
// there (say --resume or --force), of a run that ended well (say --force twice), or a live node's;
// kUnavailable it cannot be made.
Result<NodeLog> prepare_node_log(const RunConfig& config, NodeId node, ExistingLog existing,
                                 LockFile lock = ::flock);

// A node whose run never began, or that no server has let in, has not run: removes its log, so that a start of the
// corrected configuration is not refused. The log's warnings are on standard error, too, other lines are lost. The
// folder stays, which may be another node's by now, and so does a log that is continued.
void forget_node_log(const NodeLog& log, ExistingLog existing);

}  // namespace paceline
