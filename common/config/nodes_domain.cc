// cluster.nodes: `4`, or `{min: 2, max: 8}` for a run that begins with two nodes and may grow to eight.
#include "common/config/domain.h"
#include "common/config/map_fields.h"

namespace paceline::config {
namespace {

constexpr std::uint32_t kNodesMax = 4096;
constexpr const char* kExpectedMap = "a map such as {min: 2, max: 8}";

std::optional<Fault> read_range(const Value& map, ClusterSection& cluster) {
  for (std::size_t i = 0; i < map.names.size(); ++i) {
    if (map.names[i] == "min" || map.names[i] == "max") continue;
    return Fault{map.items[i].place, "", "unknown key", "\"" + map.names[i] + "\"", kExpectedMap};
  }
  for (const char* const name : {"min", "max"}) {
    if (find_field(map, name) != nullptr) continue;
    return Fault{map.place, "", "missing key", std::string("no ") + name, kExpectedMap};
  }
  std::uint32_t min = 0;
  std::uint32_t max = 0;
  if (auto wrong = read_field(map, "max", whole32(1, kNodesMax), max)) return wrong;
  if (auto wrong = read_field(map, "min", whole32(1, kNodesMax), min)) return wrong;
  if (min > max) {
    return Fault{find_field(map, "min")->place, ".min", "more than max", std::to_string(min),
                 "1 to " + std::to_string(max)};
  }
  cluster.nodes = max;
  cluster.nodes_at_start = min == max ? std::nullopt : std::optional(min);
  return std::nullopt;
}

std::optional<Fault> read_nodes(const Value& value, ClusterSection& cluster) {
  if (value.kind == Value::Kind::kMap) return read_range(value, cluster);
  if (auto wrong = whole32(1, kNodesMax).read(value, cluster.nodes)) return wrong;
  cluster.nodes_at_start.reset();
  return std::nullopt;
}

std::string write_nodes(const ClusterSection& cluster) {
  if (!cluster.nodes_at_start) return std::to_string(cluster.nodes);
  return "{min: " + std::to_string(*cluster.nodes_at_start) + ", max: " + std::to_string(cluster.nodes) + "}";
}

}  // namespace

Domain<ClusterSection> node_counts() {
  return {whole32(1, kNodesMax).expected + ", or " + kExpectedMap, read_nodes, write_nodes};
}

}  // namespace paceline::config
