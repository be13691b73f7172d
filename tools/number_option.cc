#include "tools/number_option.h"

#include <charconv>
#include <cmath>
#include <utility>

namespace paceline {

std::function<std::string(const std::string&)> number_option(bool (*fits)(double), std::string expected) {
  return [fits, expected = std::move(expected)](const std::string& text) {
    double number = 0.0;
    const char* const end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, number);
    const bool fine = error == std::errc() && stopped == end && std::isfinite(number) && fits(number);
    return fine ? std::string() : "got " + text + ", expected " + expected;
  };
}

std::function<std::string(const std::string&)> accuracy_option() {
  return number_option([](double x) { return x > 0.0 && x <= 1.0; }, "an accuracy above 0 and up to 1");
}

}  // namespace paceline
