// Removed one by one.
#include "server/authority/results.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "common/files/atomic_file.h"
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

Result<std::vector<std::filesystem::path>> unfinished_results(const std::filesystem::path& run) {
  std::vector<std::filesystem::path> unfinished;
  std::error_code error;
  for (std::filesystem::directory_iterator it(run, error), end; !error && it != end; it.increment(error)) {
    const auto is_of = [&](const char* name) { return is_temporary_of(it->path(), run / name); };
    if (std::any_of(std::begin(kResults), std::end(kResults), is_of)) unfinished.push_back(it->path());
  }
  if (error) return unavailable("cannot read " + run.string() + ": " + error.message());
  return unfinished;
}

Status forget_results(const std::filesystem::path& run) {
  Status status;
  std::vector<std::filesystem::path> files;
  for (const char* name : kResults) files.push_back(run / name);
  for (const auto& found : {parts_of_traces(run), unfinished_results(run)}) {
    if (found.is_ok()) {
      files.insert(files.end(), found->begin(), found->end());
    } else {
      status = found.status();
    }
  }
  for (const std::filesystem::path& file : files) {
    std::error_code error;
    std::filesystem::remove(file, error);
    if (error) status = unavailable("cannot remove " + file.string() + ": " + error.message());
  }
  return status;
}

}  // namespace paceline::server
