// UTF-8, one character at a time (RFC 3629, section 4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace paceline {

inline bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

// The length of the well-formed character at the front of `text`, which is not empty; 0 where there is none.
inline std::size_t character_length(std::string_view text) {
  const auto lead = static_cast<std::uint8_t>(text.front());
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (begins_character(text[i])) return 0;
  }
  if (length > 1) {
    const auto second = static_cast<std::uint8_t>(text[1]);
    const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
    const bool beyond = (lead == 0xed && second >= 0xa0) || (lead == 0xf4 && second >= 0x90);
    if (overlong || beyond) return 0;
  }
  return length;
}

}  // namespace paceline
