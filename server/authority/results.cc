// Removed one by one.
#include "server/authority/results.h"

#include <string>
#include <system_error>
#include <vector>

#include "common/trace/trace_file.h"

namespace paceline::server {

Result<std::vector<std::filesystem::path>> parts_of_traces(const std::filesystem::path& run) {
  std::vector<std::filesystem::path> parts;
  std::error_code error;
  for (std::filesystem::directory_iterator it(run, error), end; !error && it != end; it.increment(error)) {
    if (trace::is_part(it->path().filename().string())) parts.push_back(it->path());
  }
  if (error) return unavailable("cannot read " + run.string() + ": " + error.message());
  return parts;
}

Status forget_results(const std::filesystem::path& run) {
  Status status;
  std::vector<std::filesystem::path> files;
  for (const char* name : kResults) files.push_back(run / name);
  Result<std::vector<std::filesystem::path>> parts = parts_of_traces(run);
  if (parts.is_ok()) {
    files.insert(files.end(), parts->begin(), parts->end());
  } else {
    status = parts.status();
  }
  for (const std::filesystem::path& file : files) {
    std::error_code error;
    std::filesystem::remove(file, error);
    if (error) status = unavailable("cannot remove " + file.string() + ": " + error.message());
  }
  return status;
}

}  // namespace paceline::server
