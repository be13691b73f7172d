// One element of simulate.events: `{at: 30s, node: 2, kind: crash}`.
#include "common/config/domain.h"
#include "common/config/map_fields.h"

namespace paceline::config {
namespace {

constexpr const char* kExpectedEvent = "a map such as {at: 30s, node: 2, kind: crash}";

Domain<Duration> moment() { return duration(Duration(0), std::chrono::hours(24 * 365)); }

std::optional<Fault> read_event(const Value& value, ClusterEvent& out) {
  if (value.kind != Value::Kind::kMap) return fault(value, "wrong type", kExpectedEvent);
  for (std::size_t i = 0; i < value.names.size(); ++i) {
    const std::string& name = value.names[i];
    if (name == "at" || name == "node" || name == "kind") continue;
    return Fault{value.items[i].place, "", "unknown key", "\"" + name + "\"", kExpectedEvent};
  }
  for (const char* name : {"at", "node", "kind"}) {
    if (find_field(value, name) == nullptr) {
      return Fault{value.place, "", "missing key", std::string("no ") + name, kExpectedEvent};
    }
  }
  ClusterEvent event;
  if (auto wrong = read_field(value, "at", moment(), event.at)) return wrong;
  if (auto wrong = read_field(value, "node", whole32(0, 65535), event.node)) return wrong;
  if (auto wrong = read_field(value, "kind", choice<ClusterEventKind>(), event.kind)) return wrong;
  out = event;
  return std::nullopt;
}

std::string write_event(const ClusterEvent& event) {
  return "{at: " + write_duration(event.at) + ", node: " + std::to_string(event.node) +
         ", kind: " + name_of(event.kind) + "}";
}

}  // namespace

Domain<ClusterEvent> cluster_event() { return {kExpectedEvent, read_event, write_event}; }

}  // namespace paceline::config
