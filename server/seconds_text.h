// "3.2 s", for lines of the log.
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

}  // namespace paceline::server
