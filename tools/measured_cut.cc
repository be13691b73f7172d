#include "tools/measured_cut.h"

#include <algorithm>
#include <numeric>

#include "common/network/network.h"
#include "common/network/stage_plan.h"
#include "common/network/stages.h"

namespace paceline {
namespace {

// Of a cut that is worth a resume.
constexpr double kSlowestMax = 0.95;

double cost_of(const std::vector<double>& costs, const StageSpec& stage) {
  return std::accumulate(costs.begin() + static_cast<std::ptrdiff_t>(stage.first),
                         costs.begin() + static_cast<std::ptrdiff_t>(stage.last), 0.0);
}

}  // namespace

std::optional<MeasuredCut> measured_cut(const RunConfig& config, std::span<const double> busy_seconds) {
  const auto network = build_network(config);
  if (!network.is_ok()) return std::nullopt;
  const auto stages = stages_of_run(config, *network);
  const bool known = stages.is_ok() && stages->size() == busy_seconds.size() &&
                     std::all_of(busy_seconds.begin(), busy_seconds.end(), [](double s) { return s > 0.0; });
  if (!known) return std::nullopt;
  const std::vector<double> costs = costs_by_products(*network);
  MeasuredCut found;
  for (std::size_t s = 0; s < stages->size(); ++s) {
    found.speeds.push_back(cost_of(costs, (*stages)[s]) / busy_seconds[s]);
  }
  const auto cut = cut_by_costs(*network, costs, config.pipeline.stages, found.speeds);
  if (!cut.is_ok() || !plan_of_run(config, *network, *cut).is_ok()) return std::nullopt;
  double slowest = 0.0;
  for (std::size_t s = 0; s < cut->size(); ++s) {
    found.layers.push_back((*cut)[s].last - (*cut)[s].first);
    slowest = std::max(slowest, cost_of(costs, (*cut)[s]) / found.speeds[s]);
  }
  found.slowest = slowest / *std::max_element(busy_seconds.begin(), busy_seconds.end());
  if (!(found.slowest <= kSlowestMax)) return std::nullopt;
  const double fastest = *std::max_element(found.speeds.begin(), found.speeds.end());
  for (double& speed : found.speeds) speed /= fastest;
  return found;
}

}  // namespace paceline
