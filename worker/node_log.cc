// The lock is the kernel's (flock), so it goes with its process however that ends.
#include "worker/node_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace paceline {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

std::filesystem::path log_of(const RunConfig& config, NodeId node) {
  return std::filesystem::path(config.run.out) / ("worker-" + to_string(node) + ".log");
}

std::string holds_a_run(const RunConfig& config, NodeId node) {
  return "the run directory " + config.run.out + " already holds a run of node " + to_string(node) + " (" +
         log_of(config, node).filename().string() + ")";
}

}  // namespace

Status check_unused(const RunConfig& config, NodeId node) {
  std::error_code error;
  if (!std::filesystem::exists(log_of(config, node), error)) return Status::ok();
  return failed_precondition(
      holds_a_run(config, node) +
      "; choose another run.out, go on with that run with --resume, or replace it with --force");
}

Result<NodeLog> prepare_node_log(const RunConfig& config, NodeId node, ExistingLog existing,
                                 LockFile lock_file) {
  const std::filesystem::path out(config.run.out);
  std::error_code error;
  std::filesystem::create_directories(out, error);
  if (error) return unavailable("cannot create " + out.string() + ": " + error.message());
  const std::filesystem::path file = log_of(config, node);
  if (existing == ExistingLog::kIsRefused) PACELINE_RETURN_IF_ERROR(check_unused(config, node));
  const int opened = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (opened < 0) return unavailable("cannot open " + file.string() + ": " + reason(errno));
  const auto close = [](const int* descriptor) {
    ::close(*descriptor);
    delete descriptor;
  };
  const std::shared_ptr<const int> lock(new int(opened), close);
  std::string warning;
  if (lock_file(opened, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK)
      return failed_precondition(holds_a_run(config, node) + ", and that node is still alive");
    warning = "cannot lock " + file.string() + ": " + reason(errno) +
              "; another process of this node would not be noticed before it joins";
  }
  if (existing == ExistingLog::kIsContinued) return NodeLog{file, lock, std::move(warning)};
  if (::ftruncate(opened, 0) != 0) return unavailable("cannot empty " + file.string() + ": " + reason(errno));
  return NodeLog{file, lock, std::move(warning)};
}

}  // namespace paceline
