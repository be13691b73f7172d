// What a folder without permission looks like to a test, whoever runs it.
#pragma once

#include <sys/fsuid.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

namespace paceline::testing {

// While it lives, this thread may not write into `folder`, which belongs to it. For root, who may write
// everywhere, the thread touches files as nobody does (setfsuid(2)). `permissions`: others than that.
class UnwritableFolder {
 public:
  explicit UnwritableFolder(std::filesystem::path folder, std::filesystem::perms permissions = kReadOnly)
      : folder_(std::move(folder)) {
    std::filesystem::permissions(folder_, permissions);
    if (::geteuid() != 0) return;
    ::setfsuid(kNobody);
    if (::setfsuid(kNobody) == kNobody) return;  // it says who one was
    std::filesystem::permissions(folder_, std::filesystem::perms(0755));
    FAIL("this test cannot run here: root may not become nobody (CAP_SETUID is missing)");
  }
  UnwritableFolder(const UnwritableFolder&) = delete;
  UnwritableFolder& operator=(const UnwritableFolder&) = delete;
  ~UnwritableFolder() {
    if (::geteuid() == 0) ::setfsuid(0);
    std::filesystem::permissions(folder_, std::filesystem::perms(0755));
  }

 private:
  static constexpr auto kReadOnly = std::filesystem::perms(0555);
  static constexpr int kNobody = 65534;
  std::filesystem::path folder_;
};

}  // namespace paceline::testing
