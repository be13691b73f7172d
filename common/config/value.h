// A YAML value without YAML: what the document reader hands to the schema, so that only document.cc sees
// yaml-cpp and every value knows the place it came from. Internal to
// common/config, and to sweep/, whose grids are YAML too.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace paceline::config {

// Where a value was written: a line of a file, or the command line (line 0).
struct Place {
  std::string source;
  int line = 0;  // from 1; 0: the source has no lines
};

// "configs/ssp.yaml:12", or "command line".
std::string to_string(const Place& place);

struct Value {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  std::string text;                // scalar: as written, without quotes
  bool quoted = false;             // scalar: written in quotes, hence a text and never a number
  std::vector<std::string> names;  // map: the keys, without repetition, one for each of `items`
  std::vector<Value> items;        // list: the elements; map: the values
  Place place;                     // of the value in a list, of the key in a map
};

// The value as an error message shows it: `"three"`, `null`, `a list of 2`, `a map`.
std::string describe(const Value& value);

// What is wrong with one value. The key it belongs to is known to whoever asked.
struct Fault {
  Place place;
  std::string within;  // the part of the key's value that is wrong: "", "[2]" or "[2].kernel"
  std::string what;    // "wrong type"
  std::string got;
  std::string expected;
};

// `place: key: what, got …, expected …`: the one form of every configuration error; one line, so control
// characters in any part become spaces.
std::string format_error(const Place& place, const std::string& key, const std::string& what,
                         const std::string& got, const std::string& expected);

}  // namespace paceline::config
