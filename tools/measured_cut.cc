#include "tools/measured_cut.h"

#include <algorithm>
#include <numeric>

#include "common/network/network.h"
#include "common/network/stage_plan.h"
#include "common/network/stages.h"

namespace paceline {
namespace {

constexpr std::int64_t kStepsMin = 50;
// Of a cut that is worth a resume.
constexpr double kSlowestMax = 0.95;
// Nodes of one run are hardly further apart: then layers are slower than their products, and --measure says more.
constexpr double kSpreadMax = 4.0;

// Of each stage, all its parts.
std::vector<double> costs_of_stages(const std::vector<double>& costs, const std::vector<StageSpec>& parts,
                                    std::size_t stages) {
  std::vector<double> sums(stages, 0.0);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    sums[p % stages] += std::accumulate(costs.begin() + static_cast<std::ptrdiff_t>(parts[p].first),
                                        costs.begin() + static_cast<std::ptrdiff_t>(parts[p].last), 0.0);
  }
  return sums;
}

// None: another network's, another number of stages, or not known.
std::optional<std::vector<StageSpec>> stages_that_ran(const RunConfig& config, const NetworkSpec& network,
                                                      const PipelineSummary& ran) {
  const std::size_t parts = std::size_t{config.pipeline.stages} * config.pipeline.chunks_of_stage();
  if (ran.layers.size() != parts || ran.parameters.size() != parts) return std::nullopt;
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

std::optional<MeasuredCut> measured_cut(const RunConfig& config, const PipelineSummary& ran,
                                        std::int64_t steps) {
  if (steps < kStepsMin) return std::nullopt;
  const auto network = build_network(config);
  if (!network.is_ok()) return std::nullopt;
  const auto stages = stages_that_ran(config, *network, ran);
  const std::vector<double>& busy_seconds = ran.busy_seconds;
  const std::uint32_t count = config.pipeline.stages;
  const std::uint32_t chunks = config.pipeline.chunks_of_stage();
  const bool known = stages && busy_seconds.size() == count &&
                     std::all_of(busy_seconds.begin(), busy_seconds.end(), [](double s) { return s > 0.0; });
  if (!known) return std::nullopt;
  const std::vector<double> costs = costs_by_products(*network);
  MeasuredCut found;
  const std::vector<double> products = costs_of_stages(costs, *stages, count);
  for (std::size_t s = 0; s < count; ++s) found.speeds.push_back(products[s] / busy_seconds[s]);
  const auto [slow, fast] = std::minmax_element(found.speeds.begin(), found.speeds.end());
  if (*fast > kSpreadMax * *slow) return std::nullopt;
  const auto cut = cut_by_costs(*network, costs, count, found.speeds, chunks);
  if (!cut.is_ok() || !plan_of_run(config, *network, *cut).is_ok()) return std::nullopt;
  double slowest = 0.0;
  const std::vector<double> would_have = costs_of_stages(costs, *cut, count);
  for (std::size_t s = 0; s < count; ++s) slowest = std::max(slowest, would_have[s] / found.speeds[s]);
  for (const StageSpec& part : *cut) found.layers.push_back(part.last - part.first);
  found.slowest = slowest / *std::max_element(busy_seconds.begin(), busy_seconds.end());
  if (!(found.slowest <= kSlowestMax)) return std::nullopt;
  const double fastest = *std::max_element(found.speeds.begin(), found.speeds.end());
  for (double& speed : found.speeds) speed /= fastest;
  return found;
}

}  // namespace paceline
