#include "common/text/printable.h"

#include <algorithm>
#include <cstdint>

#include "common/text/utf8.h"

namespace paceline {
namespace {

// Also those of Latin-1, which some terminals obey: U+0080 to U+009F.
bool is_control(std::string_view character) {
  const auto first = static_cast<std::uint8_t>(character.front());
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  return first == 0xc2 && static_cast<std::uint8_t>(character[1]) < 0xa0;
}

std::string cleaned(std::string_view text, bool line_ends_stay) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(length, 1));
    const bool stays = line_ends_stay && character == "\n";
    if (stays || (length > 0 && !is_control(character))) {
      clean += character;
    } else {
      clean += '?';
    }
    text.remove_prefix(character.size());
  }
  return clean;
}

}  // namespace

std::string printable(std::string_view text) { return cleaned(text, false); }
std::string printable_lines(std::string_view text) { return cleaned(text, true); }

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

std::string fitted(const std::string& line, std::size_t columns) {
  if (characters(line) <= columns) return line;
  if (columns == 0) return "";
  std::size_t at = 0;
  for (std::size_t left = columns - 1; at < line.size(); ++at) {
    if (begins_character(line[at]) && left-- == 0) break;
  }
  return line.substr(0, at) + "…";
}

std::string quotable(std::string_view text) {
  // No character has more than four bytes, so what is left out here would not have been shown.
  return fitted(printable(text.substr(0, 4 * (kQuotedMax + 1))), kQuotedMax);
}

}  // namespace paceline
