// One element of sync.stages: `{policy: bsp, until: {progress: 0.5}}`. As with a layer, a field that its
// policy would not use is an error and not a surprise.
#include <algorithm>
#include <array>

#include "common/config/domain.h"
#include "common/config/map_fields.h"

namespace paceline::config {
namespace {

constexpr const char* kExpectedStage = "a map such as {policy: bsp, until: {progress: 0.5}}";
constexpr const char* kExpectedUntil =
    "one of version, iterations, progress, train_accuracy, train_loss, such as {progress: 0.5}";

bool is_stage_policy(PolicyKind kind) { return kind != PolicyKind::kSwitch && kind != PolicyKind::kBackup; }

// Those of every stage.
constexpr std::array<const char*, 4> kFieldsOfAll = {"policy", "until", "apply", "lr_scale"};

// The fields of a stage besides those.
std::vector<std::string> parameters_of(PolicyKind kind) {
  switch (kind) {
    case PolicyKind::kSsp:
      return {"threshold"};
    case PolicyKind::kDtssp:
    case PolicyKind::kRandomWalk:
      return {"threshold", "threshold_min", "threshold_max"};
    case PolicyKind::kDssp:
      return {"threshold_min", "threshold_max"};
    case PolicyKind::kBsp:
    case PolicyKind::kAsp:
    case PolicyKind::kBackup:
    case PolicyKind::kSwitch:
      return {};
  }
  return {};
}

// Up to as many times as a cluster may have workers, and the other way round.
Domain<double> lr_scale() { return real({.low = 1e-6, .high = 1e6}); }

Domain<double> end_value(StageEnd end) {
  switch (end) {
    case StageEnd::kProgress:
      return real({.low = 0, .high = 1, .open_low = true, .open_high = true});
    case StageEnd::kTrainAccuracy:
      return real({.low = 0, .high = 1, .open_low = true});
    case StageEnd::kTrainLoss:
      return real({});
    case StageEnd::kVersion:
    case StageEnd::kIterations:
    case StageEnd::kNever:
      break;
  }
  Domain<std::int64_t> count = whole(1, 1'000'000'000'000);
  return {count.expected,
          [count](const Value& value, double& field) {
            std::int64_t whole_number = 0;
            std::optional<Fault> wrong = count.read(value, whole_number);
            if (!wrong) field = static_cast<double>(whole_number);
            return wrong;
          },
          [count](const double& field) { return count.write(static_cast<std::int64_t>(field)); }};
}

std::optional<Fault> read_until(const Value& map, StageUntil& until) {
  const Value* const value = find_field(map, "until");
  if (value == nullptr) return std::nullopt;
  if (value->kind != Value::Kind::kMap || value->names.size() != 1) {
    Fault wrong = fault(*value, "not one condition", kExpectedUntil);
    wrong.within = ".until";
    return wrong;
  }
  const std::string& name = value->names.front();
  const std::optional<StageEnd> end = named<StageEnd>(name);
  if (!end) return Fault{value->place, ".until", "unknown key", "\"" + name + "\"", kExpectedUntil};
  until.end = *end;
  auto wrong = end_value(*end).read(value->items.front(), until.value);
  if (wrong) wrong->within = ".until." + name + wrong->within;
  return wrong;
}

std::optional<Fault> read_stage(const Value& value, PolicyStage& out) {
  if (value.kind != Value::Kind::kMap) return fault(value, "wrong type", kExpectedStage);
  if (find_field(value, "policy") == nullptr) {
    return Fault{value.place, "", "missing key", "no policy", kExpectedStage};
  }
  PolicyStage stage;
  if (auto wrong = read_field(value, "policy", choice<PolicyKind>(is_stage_policy), stage.policy))
    return wrong;
  const std::vector<std::string> parameters = parameters_of(stage.policy);
  for (std::size_t i = 0; i < value.names.size(); ++i) {
    const std::string& name = value.names[i];
    if (std::find(kFieldsOfAll.begin(), kFieldsOfAll.end(), name) != kFieldsOfAll.end()) continue;
    if (std::find(parameters.begin(), parameters.end(), name) != parameters.end()) continue;
    std::string expected = std::string(name_of(stage.policy)) + " to have policy, until";
    for (const std::string& parameter : parameters) expected += ", " + parameter;
    expected += ", apply, lr_scale";
    return Fault{value.items[i].place, "", "unknown key", "\"" + name + "\"", expected};
  }
  for (const auto& [name, field] : {std::pair{"threshold", &PolicyStage::threshold},
                                    {"threshold_min", &PolicyStage::threshold_min},
                                    {"threshold_max", &PolicyStage::threshold_max}}) {
    if (auto wrong = read_field(value, name, whole(0, 1'000'000), stage.*field)) return wrong;
  }
  if (find_field(value, "apply") != nullptr) {
    stage.apply.emplace();
    if (auto wrong = read_field(value, "apply", choice<ApplyMode>(), *stage.apply)) return wrong;
  }
  if (auto wrong = read_field(value, "lr_scale", lr_scale(), stage.lr_scale)) return wrong;
  if (auto wrong = read_until(value, stage.until)) return wrong;
  out = stage;
  return std::nullopt;
}

std::string write_stage(const PolicyStage& stage) {
  std::string text = std::string("{policy: ") + name_of(stage.policy);
  for (const std::string& parameter : parameters_of(stage.policy)) {
    const std::int64_t value = parameter == "threshold"       ? stage.threshold
                               : parameter == "threshold_min" ? stage.threshold_min
                                                              : stage.threshold_max;
    text += ", " + parameter + ": " + std::to_string(value);
  }
  if (stage.apply) text += std::string(", apply: ") + name_of(*stage.apply);
  if (stage.lr_scale != 1.0) text += ", lr_scale: " + lr_scale().write(stage.lr_scale);
  if (stage.until.end != StageEnd::kNever) {
    text += std::string(", until: {") + name_of(stage.until.end) + ": " +
            end_value(stage.until.end).write(stage.until.value) + "}";
  }
  return text + "}";
}

}  // namespace

Domain<PolicyStage> policy_stage() {
  return {"a stage such as {policy: bsp, until: {progress: 0.5}}", read_stage, write_stage};
}

}  // namespace paceline::config
