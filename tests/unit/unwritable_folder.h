// What a folder without permission looks like to a test, whoever runs it.
#pragma once

#include <sys/fsuid.h>
#include <unistd.h>

#include <filesystem>

namespace paceline::testing {

// While it lives, this thread may not write into `folder`, which belongs to it. For root, who may write
// everywhere, the thread touches files as nobody does (setfsuid(2)).
class UnwritableFolder {
 public:
  explicit UnwritableFolder(std::filesystem::path folder) : folder_(std::move(folder)) {
    std::filesystem::permissions(folder_, std::filesystem::perms(0555));
    if (::geteuid() == 0) ::setfsuid(kNobody);
  }
  UnwritableFolder(const UnwritableFolder&) = delete;
  UnwritableFolder& operator=(const UnwritableFolder&) = delete;
  ~UnwritableFolder() {
    if (::geteuid() == 0) ::setfsuid(0);
    std::filesystem::permissions(folder_, std::filesystem::perms(0755));
  }

 private:
  static constexpr uid_t kNobody = 65534;
  std::filesystem::path folder_;
};

}  // namespace paceline::testing
