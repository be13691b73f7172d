// A folder of a test's own that is gone with it. One whose process was killed is removed by the next test:
// its name says whose it is, paceline-test-PID-….
#pragma once

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "common/assert.h"

namespace paceline::testing {

class TempFolder {
 public:
  TempFolder() {
    remove_left_over();
    const std::string prefix = kPrefix + std::to_string(::getpid());
    std::string name = (std::filesystem::temp_directory_path() / (prefix + "-XXXXXX")).string();
    PACELINE_ASSERT(::mkdtemp(name.data()) != nullptr, "no temporary folder " + name);
    path_ = name;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  static constexpr const char* kPrefix = "paceline-test-";

  static void remove_left_over() {
    std::error_code ignored;
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::temp_directory_path(), ignored)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with(kPrefix)) continue;
      const long owner = std::strtol(name.c_str() + std::string(kPrefix).size(), nullptr, 10);
      const bool ended = owner > 0 && ::kill(static_cast<pid_t>(owner), 0) != 0 && errno == ESRCH;
      if (ended) std::filesystem::remove_all(entry.path(), ignored);
    }
  }

  std::filesystem::path path_;
};

}  // namespace paceline::testing
