// Numbers as the tables of `paceline report` have them.
#pragma once

#include <optional>
#include <string>

#include "common/printed.h"

namespace paceline {

inline std::string seconds_text(const std::optional<double>& known) {
  return known ? printed("%.3f", *known) : "-";
}

inline std::string accuracy_text(const std::optional<double>& accuracy) {
  return accuracy ? printed("%.2f %%", 100.0 * *accuracy) : "not evaluated";
}

}  // namespace paceline
