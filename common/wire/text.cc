#include "common/wire/text.h"

#include <cstdint>

#include "common/text/utf8.h"

namespace paceline::wire {
namespace {

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
