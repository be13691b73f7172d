// One layer of a network given in YAML: `{kind: conv, out: 32, kernel: 3}`. A table says which fields each
// kind needs, may have and refuses, so that a field that would not be used is an error and not a surprise.
#include <algorithm>
#include <array>

#include "common/config/domain.h"
#include "common/config/map_fields.h"

namespace paceline::config {
namespace {

enum class Use { kNever, kOptional, kRequired };

struct Field {
  const char* name;
  Use conv, pool, dense, dropout;  // relu and flatten have no fields

  Use use(LayerKind kind) const {
    switch (kind) {
      case LayerKind::kConv:
        return conv;
      case LayerKind::kPool:
        return pool;
      case LayerKind::kDense:
        return dense;
      case LayerKind::kDropout:
        return dropout;
      case LayerKind::kRelu:
      case LayerKind::kFlatten:
        return Use::kNever;
    }
    return Use::kNever;
  }
};

constexpr std::array<Field, 5> kFields{{
    //          conv            pool            dense           dropout
    {"out", Use::kRequired, Use::kNever, Use::kRequired, Use::kNever},
    {"kernel", Use::kRequired, Use::kRequired, Use::kNever, Use::kNever},
    {"stride", Use::kOptional, Use::kOptional, Use::kNever, Use::kNever},
    {"padding", Use::kOptional, Use::kOptional, Use::kNever, Use::kNever},
    {"rate", Use::kNever, Use::kNever, Use::kNever, Use::kRequired},
}};

std::string fields_of(LayerKind kind) {
  std::string names = "kind";
  for (const Field& field : kFields) {
    if (field.use(kind) != Use::kNever) names += std::string(", ") + field.name;
  }
  return std::string(name_of(kind)) + " to have " + names;
}

// The fields the kind needs are there, and no others.
std::optional<Fault> check_fields(const Value& map, LayerKind kind) {
  for (std::size_t i = 0; i < map.names.size(); ++i) {
    if (map.names[i] == "kind") continue;
    const auto field =
        std::find_if(kFields.begin(), kFields.end(), [&](const Field& f) { return map.names[i] == f.name; });
    if (field == kFields.end() || field->use(kind) == Use::kNever) {
      return Fault{map.items[i].place, "", "unknown key", "\"" + map.names[i] + "\"", fields_of(kind)};
    }
  }
  for (const Field& field : kFields) {
    if (field.use(kind) == Use::kRequired && find_field(map, field.name) == nullptr) {
      return Fault{map.place, "", "missing key", std::string("no ") + field.name, fields_of(kind)};
    }
  }
  return std::nullopt;
}

std::optional<Fault> read_layer(const Value& value, LayerConfig& out) {
  const std::string expected = "a map such as {kind: conv, out: 32, kernel: 3}";
  if (value.kind != Value::Kind::kMap) return fault(value, "wrong type", expected);
  if (find_field(value, "kind") == nullptr) return fault(value, "missing key kind", expected);
  LayerConfig layer_config;
  if (auto wrong = read_field(value, "kind", choice<LayerKind>(), layer_config.kind)) return wrong;
  if (auto wrong = check_fields(value, layer_config.kind)) return wrong;
  if (auto wrong = read_field(value, "out", whole(1, 1 << 20), layer_config.out)) return wrong;
  if (auto wrong = read_field(value, "kernel", whole(1, 1024), layer_config.kernel)) return wrong;

  // The defaults that depend on the kind and the kernel: a convolution keeps the size, a pool divides it.
  const bool conv = layer_config.kind == LayerKind::kConv;
  const bool pool = layer_config.kind == LayerKind::kPool;
  if (conv || pool) {
    layer_config.stride = conv ? 1 : layer_config.kernel;
    layer_config.padding = conv ? (layer_config.kernel - 1) / 2 : 0;
  }
  if (auto wrong = read_field(value, "stride", whole(1, 1024), layer_config.stride)) return wrong;
  if (auto wrong = read_field(value, "padding", whole(0, 1024), layer_config.padding)) return wrong;
  if (auto wrong =
          read_field(value, "rate", real({.low = 0, .high = 1, .open_high = true}), layer_config.rate)) {
    return wrong;
  }
  out = layer_config;
  return std::nullopt;
}

std::string write_layer(const LayerConfig& layer_config) {
  const auto used = [&](std::size_t i) { return kFields[i].use(layer_config.kind) != Use::kNever; };
  std::string fields = std::string("kind: ") + name_of(layer_config.kind);
  if (used(0)) fields += ", out: " + std::to_string(layer_config.out);
  if (used(1)) fields += ", kernel: " + std::to_string(layer_config.kernel);
  if (used(2)) fields += ", stride: " + std::to_string(layer_config.stride);
  if (used(3)) fields += ", padding: " + std::to_string(layer_config.padding);
  if (used(4)) fields += ", rate: " + real({}).write(layer_config.rate);
  return "{" + fields + "}";
}

}  // namespace

Domain<LayerConfig> layer() {
  return {"a layer such as {kind: conv, out: 32, kernel: 3}", read_layer, write_layer};
}

}  // namespace paceline::config
