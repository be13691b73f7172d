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

// None: another network's, another number of stages, or not known.
std::optional<std::vector<StageSpec>> stages_that_ran(const RunConfig& config, const NetworkSpec& network,
                                                      const PipelineSummary& ran) {
  if (ran.layers.size() != config.pipeline.stages || ran.parameters.size() != ran.layers.size())
    return std::nullopt;
  std::vector<StageSpec> stages;
  std::size_t first = 0;
  for (std::size_t s = 0; s < ran.layers.size(); ++s) {
    const std::int64_t left = std::ssize(network.layers) - static_cast<std::int64_t>(first);
    if (ran.layers[s] < 1 || ran.layers[s] > left) return std::nullopt;
    stages.push_back(stage_of_layers(network, first, first + static_cast<std::size_t>(ran.layers[s])));
    if (stages.back().parameters.size() != ran.parameters[s]) return std::nullopt;
    first = stages.back().last;
  }
  if (first != network.layers.size()) return std::nullopt;
  return stages;
}

}  // namespace

std::optional<MeasuredCut> measured_cut(const RunConfig& config, const PipelineSummary& ran) {
  const auto network = build_network(config);
  if (!network.is_ok()) return std::nullopt;
  const auto stages = stages_that_ran(config, *network, ran);
  const std::vector<double>& busy_seconds = ran.busy_seconds;
  const bool known = stages && stages->size() == busy_seconds.size() &&
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
