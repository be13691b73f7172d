// What an option that is a double may be. CLI11's own checks let nan pass, which compares with nothing, and infinity.
#pragma once

#include <functional>
#include <string>

namespace paceline {

// For CLI::Option::check(): empty where the whole text is a finite number that `fits`, else "got nan, expected a number
// above 0", with `expected` after.
std::function<std::string(const std::string&)> number_option(bool (*fits)(double), std::string expected);

// The same of --target: an accuracy above 0 and up to 1.
std::function<std::string(const std::string&)> accuracy_option();

}  // namespace paceline
