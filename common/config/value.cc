#include "common/config/value.h"

namespace paceline::config {

std::string to_string(const Place& place) {
  return place.line == 0 ? place.source : place.source + ":" + std::to_string(place.line);
}

std::string describe(const Value& value) {
  switch (value.kind) {
    case Value::Kind::kNull:
      return "null";
    case Value::Kind::kScalar: {
      // One line whatever the value holds: an error message is one line.
      std::string shown;
      for (char c : value.text.substr(0, 80)) shown += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
      return "\"" + shown + (value.text.size() > 80 ? "…\"" : "\"");
    }
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
  return line + what + ", got " + got + ", expected " + expected;
}

}  // namespace paceline::config
