// Removed one by one.
#include "server/authority/results.h"

#include <string>
#include <system_error>
#include <vector>

#include "common/trace/trace_file.h"

namespace paceline::server {

Status forget_results(const std::filesystem::path& run) {
  Status status;
  std::vector<std::filesystem::path> files;
  for (const char* name : kResults) files.push_back(run / name);
  std::error_code unread;
  for (std::filesystem::directory_iterator it(run, unread), end; !unread && it != end; it.increment(unread)) {
    if (trace::is_part(it->path().filename().string())) files.push_back(it->path());
  }
  for (const std::filesystem::path& file : files) {
    std::error_code error;
    std::filesystem::remove(file, error);
    if (error) status = unavailable("cannot remove " + file.string() + ": " + error.message());
  }
  return status;
}

}  // namespace paceline::server
