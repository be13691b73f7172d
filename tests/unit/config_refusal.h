// The error of a configuration that is refused.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "common/config/load.h"

namespace paceline::testing {

// The error line for a text; fails when there is none, or when it is not one line of the agreed form.
inline std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const Result<RunConfig> config = parse_config(text, "run.yaml", overrides);
  INFO(text);
  if (config) FAIL("was accepted");
  CHECK(config.status().code() == StatusCode::kInvalidArgument);
  const std::string line = config.status().message();
  CHECK(line.find('\n') == std::string::npos);
  CHECK_THAT(line, Catch::Contains(", got ") && Catch::Contains(", expected "));
  return line;
}

}  // namespace paceline::testing
