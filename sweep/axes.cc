#include "sweep/axes.h"

#include <utility>

#include "common/config/document.h"
#include "common/config/domain.h"
#include "common/config/value.h"

namespace paceline::sweep {
namespace {

using config::describe;
using config::format_error;
using config::Place;
using config::Value;

Status refused(const Place& place, const std::string& key, const std::string& what, const std::string& got,
               const std::string& expected) {
  return invalid_argument(format_error(place, key, what, got, expected));
}

// Nothing that YAML's flow style reads as more than letters.
bool is_plain(const std::string& text) {
  constexpr std::string_view kSigns = "._+/-";
  if (text.empty() || text == "-") return false;
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter && kSigns.find(c) == std::string_view::npos) return false;
  }
  return true;
}

// The value in flow style, as an override has it. What was not quoted and is no plain word cannot be a number
// or null, so quotes leave its meaning as it was.
std::string flow(const Value& value) {
  switch (value.kind) {
    case Value::Kind::kNull:
      return "null";
    case Value::Kind::kScalar:
      return value.quoted || !is_plain(value.text) ? config::quote(value.text) : value.text;
    case Value::Kind::kList: {
      std::string list;
      for (const Value& item : value.items) list += (list.empty() ? "" : ", ") + flow(item);
      return "[" + list + "]";
    }
    case Value::Kind::kMap: {
      std::string map;
      for (std::size_t i = 0; i < value.items.size(); ++i) {
        map += (map.empty() ? "" : ", ") + value.names[i] + ": " + flow(value.items[i]);
      }
      return "{" + map + "}";
    }
  }
  return "null";
}

// "sync.threshold" and [1, 3].
Result<Axis> axis_of_values(const std::string& key, const Value& values) {
  if (values.kind != Value::Kind::kList) {
    return refused(values.place, key, "an axis that is no list", describe(values), "a list of values");
  }
  if (values.items.empty()) {
    return refused(values.place, key, "an axis without a value", "an empty list", "one value or more");
  }
  Axis axis;
  for (const Value& value : values.items) axis.alternatives.push_back({Setting{key, flow(value)}});
  return axis;
}

// [{sync.policy: bsp}, {sync.policy: ssp, sync.threshold: 3}]
Result<Axis> axis_of_maps(const Value& maps, const std::string& of) {
  if (maps.items.empty()) {
    return refused(maps.place, of, "an axis without a value", "an empty list", "one {key: value, …} or more");
  }
  Axis axis;
  for (const Value& map : maps.items) {
    if (map.kind != Value::Kind::kMap || map.items.empty()) {
      return refused(map.place, of, "not an alternative", describe(map), "{key: value, …}");
    }
    Alternative alternative;
    for (std::size_t i = 0; i < map.items.size(); ++i) {
      alternative.push_back({map.names[i], flow(map.items[i])});
    }
    axis.alternatives.push_back(std::move(alternative));
  }
  return axis;
}

// Whether a part between the commas of the outermost level is blank; YAML reads `1,,3` as 1, null, 3, and a
// comma at the end as nothing at all.
bool has_blank_part(const std::string& text) {
  int depth = 0;
  char quote = '\0';
  bool blank = true;
  for (const char c : text) {
    if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth == 0) {
      if (blank) return true;
      blank = true;
      continue;
    }
    blank = blank && c == ' ';
  }
  return blank;
}

// What stands between the commas, as a list. A comment would hide the bracket, and so is a syntax error.
Result<Value> parts_of(const std::string& text, const std::string& key) {
  if (has_blank_part(text)) {
    return refused({"command line", 0}, key, "an empty value", "\"" + text + "\"",
                   "values between commas (an empty text is \"\", no value is null)");
  }
  return config::read_argument("[" + text + "]", key);
}

}  // namespace

Result<std::vector<Axis>> axes_of_file(std::string_view text, const std::string& source) {
  PACELINE_ASSIGN_OR_RETURN(const Value root, config::read_document(text, source));
  for (std::size_t i = 0; i < root.items.size(); ++i) {
    if (root.names[i] != "axes") {
      return refused(root.items[i].place, root.names[i], "unknown key", "\"" + root.names[i] + "\"",
                     "axes, alone in a grid's file; what all points share is in the configuration");
    }
  }
  if (root.items.empty()) return refused(root.place, "axes", "no axis", "an empty map", "axes: a list");
  const Value& list = root.items[0];
  if (list.kind != Value::Kind::kList) {
    return refused(list.place, "axes", "wrong type", describe(list), "a list of axes");
  }
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    const Value& element = list.items[i];
    const std::string at = "axes[" + std::to_string(i) + "]";
    if (element.kind == Value::Kind::kList) {
      PACELINE_ASSIGN_OR_RETURN(Axis axis, axis_of_maps(element, at));
      axes.push_back(std::move(axis));
    } else if (element.kind == Value::Kind::kMap && element.items.size() == 1) {
      PACELINE_ASSIGN_OR_RETURN(Axis axis, axis_of_values(element.names[0], element.items[0]));
      axes.push_back(std::move(axis));
    } else {
      return refused(element.place, at, "not an axis", describe(element),
                     "key: [value, …], or a list of {key: value, …} for keys that change together");
    }
  }
  return axes;
}

Result<Axis> axis_of_argument(const std::string& argument) {
  if (argument.starts_with("{")) {
    PACELINE_ASSIGN_OR_RETURN(const Value maps, parts_of(argument, argument));
    return axis_of_maps(maps, argument);
  }
  const std::size_t equals = argument.find('=');
  if (equals == std::string::npos || equals == 0) {
    return refused({"command line", 0}, "", "not an axis", "\"" + argument + "\"",
                   "key.path=value,value,… or {key.path: value, …},{…}");
  }
  const std::string key = argument.substr(0, equals);
  const std::string text = argument.substr(equals + 1);
  if (text.find_first_not_of(' ') == std::string::npos) {
    return refused({"command line", 0}, key, "an axis without a value", "\"" + argument + "\"",
                   "one value or more");
  }
  PACELINE_ASSIGN_OR_RETURN(const Value values, parts_of(text, key));
  return axis_of_values(key, values);
}

}  // namespace paceline::sweep
