// The fields of a map that stands in a list, as in train.layers and simulate.events: found by name, read
// through a domain, their faults naming them. Internal to common/config.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "common/config/domain.h"

namespace paceline::config {

inline const Value* find_field(const Value& map, const std::string& name) {
  const auto at = std::find(map.names.begin(), map.names.end(), name);
  return at == map.names.end() ? nullptr : &map.items[static_cast<std::size_t>(at - map.names.begin())];
}

// Reads one field if it is there; `within` of a fault names it.
template <typename T>
std::optional<Fault> read_field(const Value& map, const std::string& name, const Domain<T>& domain,
                                T& field) {
  const Value* value = find_field(map, name);
  if (value == nullptr) return std::nullopt;
  auto wrong = domain.read(*value, field);
  if (wrong) wrong->within = "." + name + wrong->within;
  return wrong;
}

}  // namespace paceline::config
