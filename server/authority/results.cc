// Removed one by one.
#include "server/authority/results.h"

#include <system_error>

namespace paceline::server {

Status forget_results(const std::filesystem::path& run) {
  Status status;
  for (const char* name : kResults) {
    std::error_code error;
    const std::filesystem::path file = run / name;
    std::filesystem::remove(file, error);
    if (error) status = unavailable("cannot remove " + file.string() + ": " + error.message());
  }
  return status;
}

}  // namespace paceline::server
