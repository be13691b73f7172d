// PACELINE_ASSERT: our own bugs, never the world's faults. Kept in release builds, prints its reason, and
// stops the process: going on with a broken invariant would train a wrong model in silence.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace paceline {

[[noreturn]] inline void assertion_failed(const char* condition, const std::string& reason, const char* file,
                                          int line) {
  std::fprintf(stderr, "%s:%d: assertion failed: %s: %s\n", file, line, condition, reason.c_str());
  std::abort();
}

}  // namespace paceline

#define PACELINE_ASSERT(condition, reason)                                                    \
  do {                                                                                        \
    if (!(condition)) ::paceline::assertion_failed(#condition, (reason), __FILE__, __LINE__); \
  } while (false)
