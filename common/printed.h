// printf into a string. A function of C's kind rather than a template: so the compiler compares each format
// with what is printed, and refuses one that is not written where it is used (-Wformat=2).
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>

namespace paceline {

[[gnu::format(printf, 1, 2)]] inline std::string printed(const char* format, ...) {
  std::va_list values;
  std::va_list again;
  va_start(values, format);
  va_copy(again, values);
  const int length = std::vsnprintf(nullptr, 0, format, values);
  va_end(values);
  std::string text(length > 0 ? static_cast<std::size_t>(length) : 0, '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

}  // namespace paceline
