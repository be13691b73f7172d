// What a layer's weights or biases begin with, in YAML: `{kind: gaussian, std: 0.01}`. A field that the kind
// does not read is refused.
#include <algorithm>

#include "common/config/domain.h"
#include "common/config/map_fields.h"

namespace paceline::config {
namespace {

const char* const kExpected = "a filler such as {kind: gaussian, std: 0.01}";

// The fields of a kind, beside `kind`.
std::vector<std::string> fields_of(FillerKind kind) {
  switch (kind) {
    case FillerKind::kUsual:
      return {};
    case FillerKind::kConstant:
      return {"value"};
    case FillerKind::kUniform:
      return {"low", "high"};
    case FillerKind::kGaussian:
      return {"mean", "std", "sparse"};
    case FillerKind::kXavier:
    case FillerKind::kMsra:
      return {"norm"};
  }
  return {};
}

std::optional<Fault> read_filler(const Value& value, FillerConfig& out) {
  if (value.kind != Value::Kind::kMap) return fault(value, "wrong type", kExpected);
  if (find_field(value, "kind") == nullptr) return fault(value, "missing key kind", kExpected);
  FillerConfig filler;
  if (auto wrong = read_field(value, "kind", choice<FillerKind>(), filler.kind)) return wrong;
  const std::vector<std::string> fields = fields_of(filler.kind);
  for (std::size_t i = 0; i < value.names.size(); ++i) {
    const std::string& name = value.names[i];
    if (name == "kind" || std::find(fields.begin(), fields.end(), name) != fields.end()) continue;
    return Fault{value.items[i].place, "", "unknown key", "\"" + name + "\"",
                 std::string(name_of(filler.kind)) + " to have kind" +
                     (fields.empty() ? "" : ", " + alternatives(fields))};
  }
  const Interval any{.low = -1e6, .high = 1e6};
  if (auto wrong = read_field(value, "value", real(any), filler.value)) return wrong;
  if (auto wrong = read_field(value, "low", real(any), filler.low)) return wrong;
  if (auto wrong = read_field(value, "high", real(any), filler.high)) return wrong;
  if (auto wrong = read_field(value, "mean", real(any), filler.mean)) return wrong;
  if (auto wrong = read_field(value, "std", real({.low = 0, .high = 1e6}), filler.std)) return wrong;
  if (auto wrong = read_field(value, "sparse", whole(0, 1 << 20), filler.sparse)) return wrong;
  if (auto wrong = read_field(value, "norm", choice<FillerNorm>(), filler.norm)) return wrong;
  out = filler;
  return std::nullopt;
}

std::string write_filler(const FillerConfig& filler) {
  const auto number = [](double value) { return real({}).write(value); };
  std::string fields = std::string("kind: ") + name_of(filler.kind);
  switch (filler.kind) {
    case FillerKind::kUsual:
      break;
    case FillerKind::kConstant:
      fields += ", value: " + number(filler.value);
      break;
    case FillerKind::kUniform:
      fields += ", low: " + number(filler.low) + ", high: " + number(filler.high);
      break;
    case FillerKind::kGaussian:
      fields += ", mean: " + number(filler.mean) + ", std: " + number(filler.std);
      if (filler.sparse != 0) fields += ", sparse: " + std::to_string(filler.sparse);
      break;
    case FillerKind::kXavier:
    case FillerKind::kMsra:
      fields += std::string(", norm: ") + name_of(filler.norm);
      break;
  }
  return "{" + fields + "}";
}

}  // namespace

Domain<FillerConfig> filler() { return {kExpected, read_filler, write_filler}; }

}  // namespace paceline::config
