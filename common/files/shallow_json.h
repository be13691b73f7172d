// JSON out of a file that anybody may have written. The library reads any depth, but neither its destructor
// nor dump() bears a value that is nested a hundred thousand times: a file of 200 kB would end the process.
//
// Thread: any.
#pragma once

#include <string_view>

namespace paceline {

// Nothing of ours is nested deeper than five levels.
inline constexpr int kJsonDepthMax = 8;

// What the text says (Json: one of nlohmann's), without what lies deeper than kJsonDepthMax. Throws
// Json::parse_error, or, with `throws` false, gives a discarded value.
template <typename Json>
Json parse_shallow(std::string_view text, bool throws = true) {
  return Json::parse(
      text, [](int depth, typename Json::parse_event_t, Json&) { return depth <= kJsonDepthMax; }, throws);
}

}  // namespace paceline
