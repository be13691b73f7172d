// UTF-8, one character at a time (RFC 3629, section 4).
#include "common/wire/text.h"

#include <cstdint>

namespace paceline::wire {
namespace {

// The length of the well-formed character at the front of `text`; 0 when there is none.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if (lead == 0xE0 && byte(1) < 0xA0) return 0;  // overlong
  if (lead == 0xED && byte(1) > 0x9F) return 0;  // surrogate
  if (lead == 0xF0 && byte(1) < 0x90) return 0;  // overlong
  if (lead == 0xF4 && byte(1) > 0x8F) return 0;  // above U+10FFFF
  return length;
}

bool is_control(char c) {
  const auto byte = static_cast<std::uint8_t>(c);
  return byte < 0x20 || byte == 0x7F;
}

}  // namespace

bool is_printable(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    if (length == 0 || is_control(text.front())) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string printable(std::string_view text, std::size_t bytes_max) {
  std::string clean;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    const std::size_t taken = length == 0 ? 1 : length;
    if (clean.size() + taken > bytes_max) break;
    if (length == 0) {
      clean += '?';
    } else if (is_control(text.front())) {
      clean += ' ';
    } else {
      clean += text.substr(0, length);
    }
    text.remove_prefix(taken);
  }
  return clean;
}

}  // namespace paceline::wire
