// "3.2 s", for lines of the log; and "4 s", for what was allowed.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include "common/instant.h"

namespace paceline::server {

inline std::string seconds_text(std::chrono::nanoseconds d) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", to_seconds(d));
  return text;
}

// Rounded up.
inline std::string whole_seconds_text(std::chrono::nanoseconds d) {
  return std::to_string(std::chrono::ceil<std::chrono::seconds>(d).count()) + " s";
}

}  // namespace paceline::server
