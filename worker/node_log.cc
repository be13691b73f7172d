// One run's log, locked by one process (common/files/file_lock.h).
#include "worker/node_log.h"

#include <string>
#include <system_error>
#include <utility>

#include "common/report/run_summary.h"

namespace paceline {
namespace {

std::filesystem::path log_of(const RunConfig& config, NodeId node) {
  return std::filesystem::path(config.run.out) / ("worker-" + to_string(node) + ".log");
}

std::string holds_a_run(const RunConfig& config, NodeId node) {
  return "the run directory " + config.run.out + " already holds a run of node " + to_string(node) + " (" +
         log_of(config, node).filename().string() + ")";
}

}  // namespace

ExistingLog existing_log(const DaemonOptions& given) {
  if (given.resume || given.or_start) return ExistingLog::kIsContinued;
  switch (given.force) {
    case Force::kNo:
      return ExistingLog::kIsRefused;
    case Force::kOnce:
      return ExistingLog::kIsReplaced;
    case Force::kTwice:
      return ExistingLog::kIsReplacedFinished;
  }
  return ExistingLog::kIsRefused;
}

Status check_unused(const RunConfig& config, NodeId node) {
  std::error_code error;
  if (!std::filesystem::exists(log_of(config, node), error)) return Status::ok();
  return failed_precondition(
      holds_a_run(config, node) + "; choose another run.out, go on with that run with --resume, or " +
      (ended_well(config.run.out)
           ? "replace it, which has ended well, with --force --force (remove it in Python)"
           : "replace it with --force (existing= in Python)"));
}

Result<NodeLog> prepare_node_log(const RunConfig& config, NodeId node, ExistingLog existing, LockFile lock) {
  const std::filesystem::path out(config.run.out);
  std::error_code error;
  std::filesystem::create_directories(out, error);
  if (error) return unavailable("cannot create " + out.string() + ": " + error.message());
  const std::filesystem::path file = log_of(config, node);
  if (existing == ExistingLog::kIsRefused) PACELINE_RETURN_IF_ERROR(check_unused(config, node));
  if (existing == ExistingLog::kIsReplaced) PACELINE_RETURN_IF_ERROR(check_replaceable(out));
  Result<FileLock> taken = lock_file(file, lock);
  if (taken.status().code() == StatusCode::kFailedPrecondition)
    return failed_precondition(holds_a_run(config, node) + ", and that node is still alive");
  PACELINE_RETURN_IF_ERROR(taken.status());
  if (!taken->warning.empty()) {
    taken->warning += "; another process of this node would not be noticed before it joins";
  }
  const NodeLog log{file, std::move(taken->held), std::move(taken->warning)};
  if (existing == ExistingLog::kIsContinued) return log;
  std::filesystem::resize_file(file, 0, error);
  if (error) return unavailable("cannot empty " + file.string() + ": " + error.message());
  return log;
}

void forget_node_log(const NodeLog& log, ExistingLog existing) {
  if (existing == ExistingLog::kIsContinued) return;
  std::error_code ignored;
  std::filesystem::remove(log.file, ignored);
}

}  // namespace paceline
