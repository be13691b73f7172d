#include "common/page/clock_range.h"

#include <charconv>
#include <optional>

namespace paceline {
namespace {

// A decimal number and nothing else; nothing: it is none, is negative, or is too large.
std::optional<Clock> parse_clock(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return Clock(value);
}

}  // namespace

Result<ClockRange> parse_clock_range(std::string_view text) {
  constexpr std::string_view kBetween = "..";
  const std::size_t at = text.find(kBetween);
  if (at != std::string_view::npos) {
    const std::optional<Clock> first = parse_clock(text.substr(0, at));
    const std::optional<Clock> last = parse_clock(text.substr(at + kBetween.size()));
    if (first && last && *first <= *last) return ClockRange{*first, *last};
  }
  return invalid_argument("got \"" + std::string(text) +
                          "\", expected A..B, the first and the last clock, e.g. 100..120");
}

}  // namespace paceline
