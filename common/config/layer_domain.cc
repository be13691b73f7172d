// One layer of a network given in YAML: `{kind: conv, out: 32, kernel: 3}`. The kind's rule
// (common/network/layer_rule.h) says which fields it needs, may have and refuses, so that a field that would
// not be used is an error and not a surprise.
#include <algorithm>
#include <array>

#include "common/config/domain.h"
#include "common/config/map_fields.h"
#include "common/label.h"
#include "common/network/layer_rule.h"

namespace paceline::config {
namespace {

enum class Use { kNever, kOptional, kRequired };

Use required_if(bool needed) { return needed ? Use::kRequired : Use::kNever; }
Use optional_if(bool may) { return may ? Use::kOptional : Use::kNever; }

struct Field {
  const char* name;
  Use (*use)(const LayerRule&);
};

constexpr std::array<Field, 37> kFields{{
    {"out", [](const LayerRule& rule) { return required_if(rule.has_out); }},
    {"kernel", [](const LayerRule& rule) { return required_if(rule.window != nullptr); }},
    {"stride", [](const LayerRule& rule) { return optional_if(rule.window != nullptr); }},
    {"padding", [](const LayerRule& rule) { return optional_if(rule.window != nullptr); }},
    {"rate", [](const LayerRule& rule) { return required_if(rule.has_rate); }},
    {"groups", [](const LayerRule& rule) { return optional_if(rule.has_groups); }},
    {"dilation", [](const LayerRule& rule) { return optional_if(rule.has_groups); }},
    {"window_end", [](const LayerRule& rule) { return optional_if(rule.has_window_end); }},
    {"size", [](const LayerRule& rule) { return optional_if(rule.is_lrn); }},
    {"alpha", [](const LayerRule& rule) { return optional_if(rule.is_lrn); }},
    {"beta", [](const LayerRule& rule) { return optional_if(rule.is_lrn); }},
    {"k", [](const LayerRule& rule) { return optional_if(rule.is_lrn); }},
    {"region", [](const LayerRule& rule) { return optional_if(rule.is_lrn); }},
    {"bias", [](const LayerRule& rule) { return optional_if(rule.may_lack_bias); }},
    {"epsilon", [](const LayerRule& rule) { return optional_if(rule.is_norm); }},
    {"momentum", [](const LayerRule& rule) { return optional_if(rule.is_norm); }},
    {"affine", [](const LayerRule& rule) { return optional_if(rule.is_norm); }},
    {"debias", [](const LayerRule& rule) { return optional_if(rule.is_norm); }},
    {"weights_of", [](const LayerRule& rule) { return optional_if(rule.may_share); }},
    {"part", [](const LayerRule& rule) { return required_if(rule.is_slice); }},
    {"parts", [](const LayerRule& rule) { return optional_if(rule.is_slice); }},
    {"points", [](const LayerRule& rule) { return optional_if(rule.is_slice); }},
    {"coefficients", [](const LayerRule& rule) { return optional_if(rule.has_coefficients); }},
    {"loss_weight", [](const LayerRule& rule) { return optional_if(rule.is_loss); }},
    {"divisor", [](const LayerRule& rule) { return optional_if(rule.has_divisor); }},
    {"ignore_label", [](const LayerRule& rule) { return optional_if(rule.counts_hits); }},
    {"top_k", [](const LayerRule& rule) { return optional_if(rule.counts_hits); }},
    {"margin", [](const LayerRule& rule) { return optional_if(rule.has_margin); }},
    {"legacy", [](const LayerRule& rule) { return optional_if(rule.has_margin); }},
    {"lr_factor", [](const LayerRule& rule) { return optional_if(rule.has_parameters); }},
    {"decay_factor", [](const LayerRule& rule) { return optional_if(rule.has_parameters); }},
    {"bias_lr_factor", [](const LayerRule& rule) { return optional_if(rule.has_parameters); }},
    {"bias_decay_factor", [](const LayerRule& rule) { return optional_if(rule.has_parameters); }},
    {"weight_init", [](const LayerRule& rule) { return optional_if(rule.has_parameters); }},
    {"bias_init", [](const LayerRule& rule) { return optional_if(rule.has_parameters); }},
    {"name", [](const LayerRule&) { return Use::kOptional; }},
    {"from", [](const LayerRule& rule) { return rule.inputs_min > 1 ? Use::kRequired : Use::kOptional; }},
}};

std::string fields_of(LayerKind kind) {
  std::string names = "kind";
  for (const Field& field : kFields) {
    if (field.use(layer_rule(kind)) != Use::kNever) names += std::string(", ") + field.name;
  }
  return std::string(name_of(kind)) + " to have " + names;
}

// The fields the kind needs are there, and no others.
std::optional<Fault> check_fields(const Value& map, LayerKind kind) {
  const LayerRule& rule = layer_rule(kind);
  for (std::size_t i = 0; i < map.names.size(); ++i) {
    if (map.names[i] == "kind") continue;
    const auto field =
        std::find_if(kFields.begin(), kFields.end(), [&](const Field& f) { return map.names[i] == f.name; });
    if (field == kFields.end() || field->use(rule) == Use::kNever) {
      return Fault{map.items[i].place, "", "unknown key", "\"" + map.names[i] + "\"", fields_of(kind)};
    }
  }
  for (const Field& field : kFields) {
    if (field.use(rule) == Use::kRequired && find_field(map, field.name) == nullptr) {
      return Fault{map.place, "", "missing key", std::string("no ") + field.name, fields_of(kind)};
    }
  }
  return std::nullopt;
}

// What a name may be is build_network()'s to say; but it is given.
Domain<std::string> layer_name() {
  return text("a name",
              [](const std::string& name) { return std::string(name.empty() ? "an empty name" : ""); });
}
// A norm does not decay but where it is asked to.
double usual_decay(const LayerRule& rule) { return rule.is_norm ? 0.0 : 1.0; }
Domain<double> factor() { return real({.low = 0, .high = 1e6}); }

constexpr std::int64_t kChannelsMax = 1 << 20;

std::optional<Fault> read_slice(const Value& value, LayerConfig& out) {
  if (auto wrong = read_field(value, "part", whole(0, kChannelsMax), out.part)) return wrong;
  if (auto wrong = read_field(value, "parts", whole(0, kChannelsMax), out.parts)) return wrong;
  return read_field(value, "points", list_of(whole(1, kChannelsMax)), out.points);
}

std::optional<Fault> read_loss(const Value& value, LayerConfig& out) {
  const Interval weights{.low = 0, .high = 1e6};
  if (auto wrong = read_field(value, "loss_weight", real(weights), out.loss_weight)) return wrong;
  if (auto wrong = read_field(value, "divisor", choice<LossDivisor>(), out.divisor)) return wrong;
  if (auto wrong = read_field(value, "ignore_label", or_null(whole(-1, kClassesMax - 1)), out.ignore_label))
    return wrong;
  if (auto wrong = read_field(value, "top_k", whole(1, 1 << 16), out.top_k)) return wrong;
  if (auto wrong = read_field(value, "margin", real(weights), out.margin)) return wrong;
  return read_field(value, "legacy", boolean(), out.legacy);
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
  if (const auto window = layer_rule(layer_config.kind).window) {
    const WindowDefaults defaults = window(layer_config.kernel);
    layer_config.stride = defaults.stride;
    layer_config.padding = defaults.padding;
  }
  if (auto wrong = read_field(value, "stride", whole(1, 1024), layer_config.stride)) return wrong;
  if (auto wrong = read_field(value, "padding", whole(0, 1024), layer_config.padding)) return wrong;
  if (auto wrong =
          read_field(value, "rate", real({.low = 0, .high = 1, .open_high = true}), layer_config.rate)) {
    return wrong;
  }
  const Interval any{.low = -1e6, .high = 1e6};
  if (auto wrong = read_field(value, "groups", whole(1, 1 << 16), layer_config.groups)) return wrong;
  if (auto wrong = read_field(value, "dilation", whole(1, 1024), layer_config.dilation)) return wrong;
  if (auto wrong = read_field(value, "window_end", choice<WindowEnd>(), layer_config.window_end))
    return wrong;
  if (auto wrong = read_field(value, "size", whole(1, 1024), layer_config.size)) return wrong;
  if (auto wrong = read_field(value, "alpha", real(any), layer_config.alpha)) return wrong;
  if (auto wrong = read_field(value, "beta", real(any), layer_config.beta)) return wrong;
  if (auto wrong = read_field(value, "k", real(any), layer_config.k)) return wrong;
  if (auto wrong = read_field(value, "region", choice<LrnRegion>(), layer_config.region)) return wrong;
  if (auto wrong = read_field(value, "bias", boolean(), layer_config.bias)) return wrong;
  const Interval above_zero{.low = 0, .high = 1, .open_low = true};
  if (auto wrong = read_field(value, "epsilon", real(above_zero), layer_config.epsilon)) return wrong;
  if (auto wrong = read_field(value, "momentum", real(above_zero), layer_config.momentum)) return wrong;
  if (auto wrong = read_field(value, "affine", boolean(), layer_config.affine)) return wrong;
  if (auto wrong = read_field(value, "debias", boolean(), layer_config.debias)) return wrong;
  if (auto wrong = read_field(value, "weights_of", layer_name(), layer_config.weights_of)) return wrong;
  if (auto wrong = read_field(value, "coefficients", list_of(real(any)), layer_config.coefficients))
    return wrong;
  if (auto wrong = read_slice(value, layer_config)) return wrong;
  if (auto wrong = read_loss(value, layer_config)) return wrong;
  layer_config.decay_factor = usual_decay(layer_rule(layer_config.kind));
  if (auto wrong = read_field(value, "lr_factor", factor(), layer_config.lr_factor)) return wrong;
  if (auto wrong = read_field(value, "decay_factor", factor(), layer_config.decay_factor)) return wrong;
  if (auto wrong = read_field(value, "bias_lr_factor", or_null(factor()), layer_config.bias_lr_factor)) {
    return wrong;
  }
  if (auto wrong =
          read_field(value, "bias_decay_factor", or_null(factor()), layer_config.bias_decay_factor)) {
    return wrong;
  }
  if (auto wrong = read_field(value, "weight_init", filler(), layer_config.weight_init)) return wrong;
  if (auto wrong = read_field(value, "bias_init", filler(), layer_config.bias_init)) return wrong;
  if (auto wrong = read_field(value, "name", layer_name(), layer_config.name)) return wrong;
  if (auto wrong = read_field(value, "from", list_of(layer_name()), layer_config.from)) return wrong;
  if (const Value* from = find_field(value, "from"); from != nullptr && layer_config.from.empty()) {
    return Fault{from->place, ".from", "an empty list", describe(*from),
                 "the names of the layers that it reads"};
  }
  out = layer_config;
  return std::nullopt;
}

// Those that are not as usual.
std::string loss_fields(const LayerConfig& of) {
  const LayerConfig usual;
  std::string fields;
  if (of.loss_weight != usual.loss_weight) fields += ", loss_weight: " + real({}).write(of.loss_weight);
  if (of.divisor != usual.divisor) fields += std::string(", divisor: ") + name_of(of.divisor);
  if (of.ignore_label) fields += ", ignore_label: " + std::to_string(*of.ignore_label);
  if (of.top_k != usual.top_k) fields += ", top_k: " + std::to_string(of.top_k);
  if (of.margin != usual.margin) fields += ", margin: " + real({}).write(of.margin);
  if (of.legacy) fields += ", legacy: true";
  return fields;
}

std::string write_layer(const LayerConfig& layer_config) {
  const LayerRule& rule = layer_rule(layer_config.kind);
  std::string fields = std::string("kind: ") + name_of(layer_config.kind);
  if (rule.has_out) fields += ", out: " + std::to_string(layer_config.out);
  if (rule.window != nullptr) {
    fields += ", kernel: " + std::to_string(layer_config.kernel);
    fields += ", stride: " + std::to_string(layer_config.stride);
    fields += ", padding: " + std::to_string(layer_config.padding);
  }
  if (rule.has_rate) fields += ", rate: " + real({}).write(layer_config.rate);
  if (rule.is_lrn) {
    fields += ", size: " + std::to_string(layer_config.size);
    fields += ", alpha: " + real({}).write(layer_config.alpha);
    fields += ", beta: " + real({}).write(layer_config.beta);
    fields += ", k: " + real({}).write(layer_config.k);
    fields += std::string(", region: ") + name_of(layer_config.region);
  }
  const LayerConfig usual;
  if (layer_config.bias != usual.bias) fields += ", bias: false";
  if (layer_config.epsilon != usual.epsilon) fields += ", epsilon: " + real({}).write(layer_config.epsilon);
  if (layer_config.momentum != usual.momentum)
    fields += ", momentum: " + real({}).write(layer_config.momentum);
  if (!layer_config.affine) fields += ", affine: false";
  if (layer_config.debias) fields += ", debias: true";
  if (!layer_config.weights_of.empty()) {
    fields += ", weights_of: " + layer_name().write(layer_config.weights_of);
  }
  if (!layer_config.coefficients.empty()) {
    fields += ", coefficients: " + list_of(real({})).write(layer_config.coefficients);
  }
  if (rule.is_slice) {
    fields += ", part: " + std::to_string(layer_config.part);
    if (layer_config.parts != 0) fields += ", parts: " + std::to_string(layer_config.parts);
    if (!layer_config.points.empty())
      fields += ", points: " + list_of(whole(0, 0)).write(layer_config.points);
  }
  fields += loss_fields(layer_config);
  // Only where they are not as usual: a network of before there were such fields keeps its fingerprint.
  if (layer_config.lr_factor != 1.0) fields += ", lr_factor: " + factor().write(layer_config.lr_factor);
  if (layer_config.decay_factor != usual_decay(rule)) {
    fields += ", decay_factor: " + factor().write(layer_config.decay_factor);
  }
  if (layer_config.bias_lr_factor) {
    fields += ", bias_lr_factor: " + factor().write(*layer_config.bias_lr_factor);
  }
  if (layer_config.bias_decay_factor) {
    fields += ", bias_decay_factor: " + factor().write(*layer_config.bias_decay_factor);
  }
  if (layer_config.groups != 1) fields += ", groups: " + std::to_string(layer_config.groups);
  if (layer_config.dilation != 1) fields += ", dilation: " + std::to_string(layer_config.dilation);
  if (layer_config.window_end != WindowEnd::kFloor) {
    fields += std::string(", window_end: ") + name_of(layer_config.window_end);
  }
  if (layer_config.weight_init != FillerConfig{}) {
    fields += ", weight_init: " + filler().write(layer_config.weight_init);
  }
  if (layer_config.bias_init != FillerConfig{}) {
    fields += ", bias_init: " + filler().write(layer_config.bias_init);
  }
  if (!layer_config.name.empty()) fields += ", name: " + layer_name().write(layer_config.name);
  if (!layer_config.from.empty()) fields += ", from: " + list_of(layer_name()).write(layer_config.from);
  return "{" + fields + "}";
}

}  // namespace

Domain<LayerConfig> layer() {
  return {"a layer such as {kind: conv, out: 32, kernel: 3}", read_layer, write_layer};
}

}  // namespace paceline::config
