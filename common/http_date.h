// The date of an HTTP answer (RFC 9110, 5.6.7): "Sun, 06 Nov 1994 08:49:37 GMT". Whole seconds, as the clock
// of the machine that answers has them.
#pragma once

#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>

#include "common/printed.h"

namespace paceline {

inline constexpr std::array<const char*, 7> kDayNames = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
inline constexpr std::array<const char*, 12> kMonthNames = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

inline std::string http_date(std::chrono::system_clock::time_point at) {
  const auto day = std::chrono::floor<std::chrono::days>(at);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(std::chrono::floor<std::chrono::seconds>(at - day));
  return printed("%s, %02u %s %04d %02d:%02d:%02d GMT", kDayNames[std::chrono::weekday(day).c_encoding()],
                 static_cast<unsigned>(date.day()), kMonthNames[static_cast<unsigned>(date.month()) - 1],
                 static_cast<int>(date.year()), static_cast<int>(time.hours().count()),
                 static_cast<int>(time.minutes().count()), static_cast<int>(time.seconds().count()));
}

// Nothing where it is no such date. The name of the day is not looked at.
inline std::optional<std::chrono::system_clock::time_point> parse_http_date(const std::string& text) {
  char name[4] = "";
  unsigned day = 0;
  int year = 0, hour = 0, minute = 0, second = 0, length = -1;
  std::sscanf(text.c_str(), "%*3[A-Za-z], %2u %3[A-Za-z] %4d %2d:%2d:%2d GMT%n", &day, name, &year, &hour,
              &minute, &second, &length);
  if (length != static_cast<int>(text.size())) return std::nullopt;
  unsigned month = 0;
  while (month < kMonthNames.size() && std::string(kMonthNames[month]) != name) ++month;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month + 1),
                                         std::chrono::day(day)};
  const bool is_time = hour >= 0 && hour < 24 && minute >= 0 && minute < 60 && second >= 0 && second <= 60;
  if (!date.ok() || !is_time) return std::nullopt;
  return std::chrono::sys_days(date) + std::chrono::hours(hour) + std::chrono::minutes(minute) +
         std::chrono::seconds(second);
}

}  // namespace paceline
