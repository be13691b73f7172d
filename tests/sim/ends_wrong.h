// What a mutant is found by: a checker's word, or an assertion of what is tested, which is as good a find. So
// it runs in a process of its own.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <functional>

namespace paceline::test {

// Whether `is_wrong()` is true, or does not return.
inline bool ends_wrong(const std::function<bool()>& is_wrong) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const bool wrong = is_wrong();
    std::fflush(stdout);
    _exit(wrong ? 1 : 0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace paceline::test
