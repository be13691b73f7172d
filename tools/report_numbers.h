// Numbers as the tables of `paceline report` have them.
#pragma once

#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>

namespace paceline {

// printf into a string.
template <typename... Values>
std::string line(const char* format, Values... values) {
  const int length = std::snprintf(nullptr, 0, format, values...);
  std::string text(static_cast<std::size_t>(length) + 1, '\0');
  std::snprintf(text.data(), text.size(), format, values...);
  text.pop_back();
  return text;
}

inline std::string seconds_text(const std::optional<double>& known) {
  return known ? line("%.3f", *known) : "-";
}

inline std::string accuracy_text(const std::optional<double>& accuracy) {
  return accuracy ? line("%.2f %%", 100.0 * *accuracy) : "not evaluated";
}

}  // namespace paceline
