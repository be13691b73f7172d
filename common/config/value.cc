#include "common/config/value.h"

#include <algorithm>

namespace paceline::config {
namespace {

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

}  // namespace

std::string to_string(const Place& place) {
  return place.line == 0 ? place.source : place.source + ":" + std::to_string(place.line);
}

std::string describe(const Value& value) {
  switch (value.kind) {
    case Value::Kind::kNull:
      return "null";
    case Value::Kind::kScalar:
      return "\"" + value.text.substr(0, 80) + (value.text.size() > 80 ? "…\"" : "\"");
    case Value::Kind::kList:
      return "a list of " + std::to_string(value.items.size());
    case Value::Kind::kMap:
      return "a map";
  }
  return "nothing";
}

std::string format_error(const Place& place, const std::string& key, const std::string& what,
                         const std::string& got, const std::string& expected) {
  std::string line = to_string(place) + ": ";
  if (!key.empty()) line += key + ": ";
  line += what + ", got " + got + ", expected " + expected;
  // Keys, values and yaml-cpp's words carry what the text held: an error is one line all the same.
  std::replace_if(line.begin(), line.end(), is_control, ' ');
  return line;
}

}  // namespace paceline::config
