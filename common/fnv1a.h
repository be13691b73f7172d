// FNV-1a, 64 bit (Fowler, Noll, Vo): tells texts apart that nobody made to collide; no protection against who
// does.
#pragma once

#include <cstdint>
#include <string_view>

namespace paceline {

inline constexpr std::uint64_t kFnv1aBasis = 0xcbf29ce484222325u;

// Of `text`, or of what `hash` is of with `text` after it.
constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t hash = kFnv1aBasis) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace paceline
