// A line of a printed table.
#pragma once

#include <sstream>
#include <string>

namespace paceline::testing {

// The line of `text` after `title` that begins with `begin`, blanks squeezed.
inline std::string line_of(const std::string& text, const std::string& title, const std::string& begin) {
  std::istringstream lines(text.substr(text.find(title)));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string squeezed, word;
    while (words >> word) squeezed += (squeezed.empty() ? "" : " ") + word;
    if (squeezed.rfind(begin, 0) == 0) return squeezed;
  }
  return "no line " + begin;
}

}  // namespace paceline::testing
