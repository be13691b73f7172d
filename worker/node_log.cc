#include "worker/node_log.h"

#include <system_error>

namespace paceline {

Result<std::filesystem::path> prepare_node_log(const RunConfig& config, NodeId node, bool replace) {
  const std::filesystem::path out(config.run.out);
  std::error_code error;
  std::filesystem::create_directories(out, error);
  if (error) return unavailable("cannot create " + out.string() + ": " + error.message());
  std::filesystem::path file = out / ("worker-" + to_string(node) + ".log");
  if (!replace && std::filesystem::exists(file, error)) {
    return failed_precondition("the run directory " + out.string() + " already holds a run of node " +
                               to_string(node) + " (" + file.filename().string() +
                               "); choose another run.out, or replace it with --force");
  }
  std::filesystem::remove(file, error);
  if (error) return unavailable("cannot remove " + file.string() + ": " + error.message());
  return file;
}

}  // namespace paceline
