// What a full disk looks like to a test: a limit on the size of this process's files.
#pragma once

#include <sys/resource.h>

#include <catch2/catch.hpp>

#include "common/files/atomic_file.h"

namespace paceline::testing {

// While it lives, no file of this process may grow beyond `bytes`: what a full disk looks like to write() in
// a program that has done what each of ours does first in its main (daemons.FileSizeLimits).
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    file_size_limit_is_an_error();
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &old_) == 0);
    const rlimit limit{bytes, old_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &old_); }

 private:
  rlimit old_{};
};

}  // namespace paceline::testing
