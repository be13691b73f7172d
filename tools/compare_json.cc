#include <nlohmann/json.hpp>

#include "common/timing/histogram.h"
#include "tools/compare_output.h"

namespace paceline {
namespace {

using Json = nlohmann::ordered_json;
using statistics::Verdict;

Json interval_json(const statistics::Estimate& e, bool has_interval) {
  return {{"mean", e.n > 0 ? Json(e.mean) : Json(nullptr)},
          {"low", has_interval ? Json(e.low()) : Json(nullptr)},
          {"high", has_interval ? Json(e.high()) : Json(nullptr)}};
}

Json values_json(const statistics::Sample& sample, const statistics::Estimate& mean) {
  Json json = interval_json(mean, mean.has_interval());
  json["by_seed"] = Json::object();
  for (const statistics::Observation& o : sample) {
    json["by_seed"][std::to_string(o.seed)] = o.value ? Json(*o.value) : Json(nullptr);
  }
  return json;
}

Json pair_json(const ComparedTable& table, const statistics::Comparison& c) {
  Json json{{"first", c.first}, {"second", c.second}, {"seeds", c.difference.n}};
  json.update(interval_json(c.difference, c.scatters && c.difference.has_interval()));
  const std::optional<double> relative = relative_change(table, c);
  json["relative"] = relative ? Json(*relative) : Json(nullptr);
  json["p"] = c.scatters ? Json(c.difference.p) : Json(nullptr);
  json["adjusted_p"] = c.scatters ? Json(c.adjusted_p) : Json(nullptr);
  json["verdict"] = name_of(c.verdict);
  json["inside_margin"] = c.inside_margin;
  return json;
}

Json table_json(const ComparedTable& table, const std::vector<RunGroup>& groups) {
  Json json{{"key", table.key}, {"title", table.title}, {"unit", table.unit}};
  json["values"] = Json::array();
  for (std::size_t i = 0; i < table.samples.size(); ++i) {
    json["values"].push_back(values_json(table.samples[i], table.means[i]));
  }
  json["pairs"] = Json::array();
  for (const statistics::Comparison& c : table.comparisons) json["pairs"].push_back(pair_json(table, c));
  json["winner"] = table.winner ? Json(groups[*table.winner].name) : Json(nullptr);
  json["censored"] = table.censored;
  return json;
}

Json split_json(const std::optional<TimeSplit>& split) {
  if (!split) return nullptr;
  Json phases = Json::object();
  for (std::size_t i = 0; i < kPhaseCount; ++i) phases[kPhaseNames[i]] = split->phases[i];
  return {{"compute", split->compute()}, {"apply", split->apply()},           {"wait", split->wait()},
          {"network", split->network()}, {"unaccounted", split->unaccounted}, {"phases", phases}};
}

Json counts_json(const StalenessCounts& counts) {
  Json histogram = Json::array();
  for (const auto& [bucket, count] : counts.histogram) {
    histogram.push_back(Json::array({histogram_middle_ns(bucket), count}));
  }
  return {{"mean", counts.mean()}, {"max", counts.max}, {"histogram", histogram}};
}

Json group_json(const PolicyComparison& all, std::size_t i) {
  const RunGroup& group = all.groups[i];
  Json json{{"name", group.name}, {"differing", Json::object()}, {"runs", Json::array()}};
  for (const auto& [key, value] : group.differing) json["differing"][key] = value;
  for (const ComparedRun* run : group.runs) json["runs"].push_back({{"run", run->name}, {"seed", run->seed}});
  json["split"] = split_json(all.splits[i]);
  json["staleness"] = {{"clocks", counts_json(all.staleness[i].clocks)},
                       {"gradients", counts_json(all.staleness[i].gradients)}};
  return json;
}

}  // namespace

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kTooFewSeeds:
      return "too_few_seeds";
    case Verdict::kCensored:
      return "censored";
    case Verdict::kNoScatter:
      return "no_scatter";
    case Verdict::kUndecided:
      return "undecided";
    case Verdict::kEquivalent:
      return "equivalent";
    case Verdict::kFirstIsBetter:
      return "first_is_better";
    case Verdict::kSecondIsBetter:
      return "second_is_better";
  }
  return "unknown";
}

std::string comparison_json(const PolicyComparison& comparison) {
  Json json{{"simulated", comparison.simulated}, {"groups", Json::array()}, {"tables", Json::array()}};
  for (std::size_t i = 0; i < comparison.groups.size(); ++i)
    json["groups"].push_back(group_json(comparison, i));
  for (const ComparedTable& table : comparison.tables) {
    json["tables"].push_back(table_json(table, comparison.groups));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace paceline
