#include "common/network/stages.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "common/assert.h"
#include "common/config/reducing.h"
#include "common/network/stage_plan.h"

namespace paceline {
namespace {

// By layer: behind its last parameter in the layout, or behind those of the layers in front.
std::vector<std::int64_t> parameter_ends(const NetworkSpec& network) {
  std::map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < network.layers.size(); ++i) index[network.layers[i].name] = i;
  std::vector<std::int64_t> ends(network.layers.size(), 0);
  for (const Tensor& tensor : network.layout.tensors()) {
    const auto layer = index.find(tensor.name.substr(0, tensor.name.rfind('.')));
    PACELINE_ASSERT(layer != index.end(), tensor.name);
    ends[layer->second] = tensor.offset + tensor.size();
  }
  for (std::size_t i = 1; i < ends.size(); ++i) ends[i] = std::max(ends[i], ends[i - 1]);
  return ends;
}

// Values made in front of layer `at` that it or a later one reads.
std::vector<std::size_t> passing(const NetworkSpec& network, std::size_t at) {
  std::vector<std::size_t> values;
  for (std::size_t value = 0; value <= at; ++value) {
    const bool read = std::any_of(network.layers.begin() + static_cast<std::ptrdiff_t>(at),
                                  network.layers.end(), [value](const Layer& layer) {
                                    return std::count(layer.inputs.begin(), layer.inputs.end(), value) > 0;
                                  });
    if (read) values.push_back(value);
  }
  return values;
}

StageSpec stage_between(const NetworkSpec& network, const std::vector<std::int64_t>& ends, std::size_t first,
                        std::size_t last) {
  return {first,
          last,
          passing(network, first),
          passing(network, last),
          {first == 0 ? 0 : ends[first - 1], ends[last - 1]}};
}

// The cut whose most expensive stage is the cheapest, each with parameters: last[s] of each stage. The network has
// layers with parameters enough. best[s][i]: the most expensive of s + 1 stages over the first i layers.
// `cost`: of layers [first, last) as a stage.
using CostOfStage = std::function<double(std::uint32_t stage, std::size_t first, std::size_t last)>;
std::vector<std::size_t> cheapest_cut(const CostOfStage& cost, const std::vector<std::int64_t>& ends,
                                      std::uint32_t stages) {
  const std::size_t layers = ends.size();
  const auto end_of = [&ends](std::size_t i) { return i == 0 ? 0 : ends[i - 1]; };
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(stages, std::vector<double>(layers + 1, kNever));
  std::vector<std::vector<std::size_t>> from(stages, std::vector<std::size_t>(layers + 1, 0));
  for (std::uint32_t s = 0; s < stages; ++s) {
    for (std::size_t i = 1; i <= layers; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if ((s == 0) != (j == 0) || end_of(i) == end_of(j)) continue;
        const double before = s == 0 ? 0.0 : best[s - 1][j];
        const double most = std::max(before, cost(s, j, i));
        if (most >= best[s][i]) continue;
        best[s][i] = most;
        from[s][i] = j;
      }
    }
  }
  std::vector<std::size_t> cuts(stages);
  std::size_t i = layers;
  for (std::uint32_t s = stages; s-- > 0; i = from[s][i]) cuts[s] = i;
  return cuts;
}

Result<std::vector<std::size_t>> cut_by_hand(const NetworkSpec& network, std::uint32_t stages,
                                             const std::vector<std::uint32_t>& layers,
                                             const std::vector<std::int64_t>& ends) {
  const std::size_t all = network.layers.size();
  std::vector<std::size_t> cuts;
  std::size_t sum = 0;
  for (const std::uint32_t count : layers) cuts.push_back(sum += count);
  if (layers.size() != stages || sum != all) {
    return invalid_argument("got " + std::to_string(layers.size()) + " stages of " + std::to_string(sum) +
                            " layers, expected " + std::to_string(stages) + " of " + std::to_string(all));
  }
  for (std::size_t s = 0; s < cuts.size(); ++s) {
    const std::int64_t before = s == 0 ? 0 : ends[cuts[s - 1] - 1];
    if (ends[cuts[s] - 1] > before) continue;
    return invalid_argument("got stage " + std::to_string(s) +
                            " without parameters, expected a layer with some in each");
  }
  return cuts;
}

std::vector<StageSpec> stages_at(const NetworkSpec& network, const std::vector<std::int64_t>& ends,
                                 const std::vector<std::size_t>& cuts) {
  std::vector<StageSpec> cut;
  for (std::size_t s = 0; s < cuts.size(); ++s) {
    cut.push_back(stage_between(network, ends, s == 0 ? 0 : cuts[s - 1], cuts[s]));
  }
  return cut;
}

// Whether each of `stages` can have a layer with parameters.
Status check_count(const std::vector<std::int64_t>& ends, std::uint32_t stages) {
  std::int64_t with_parameters = 0;
  for (std::size_t i = 0; i < ends.size(); ++i)
    with_parameters += ends[i] > (i == 0 ? 0 : ends[i - 1]) ? 1 : 0;
  if (stages <= with_parameters) return Status::ok();
  return invalid_argument("got " + std::to_string(stages) + " stages, expected at most " +
                          std::to_string(with_parameters) + ", the layers with parameters");
}

}  // namespace

bool cut_by_loop(const StageBalance& balance) {
  return balance.kind == BalanceKind::kLayers && balance.layers.empty();
}

Result<std::vector<StageSpec>> cut_into_stages(const NetworkSpec& network, std::uint32_t stages,
                                               const StageBalance& balance, const KeptByStages& kept) {
  if (cut_by_loop(balance)) {
    return invalid_argument("got loop without a training loop of one's own, expected time, memory or a list");
  }
  const std::vector<std::int64_t> ends = parameter_ends(network);
  PACELINE_RETURN_IF_ERROR(check_count(ends, stages));
  if (balance.kind == BalanceKind::kLayers) {
    PACELINE_ASSIGN_OR_RETURN(const auto cuts, cut_by_hand(network, stages, balance.layers, ends));
    return stages_at(network, ends, cuts);
  }
  if (balance.kind == BalanceKind::kMemory) {
    std::vector<std::vector<std::size_t>> values;  // that pass in front of each layer
    for (std::size_t i = 0; i <= ends.size(); ++i) values.push_back(passing(network, i));
    const CostOfStage bytes = [&](std::uint32_t stage, std::size_t first, std::size_t last) {
      const Range own{first == 0 ? 0 : ends[first - 1], ends[last - 1]};
      const StageSpec spec{first, last, values[first], values[last], own};
      return static_cast<double>(
          stage_bytes(network, spec, kept.stages[stage], kept.sizes, kept.more_vectors));
    };
    return stages_at(network, ends, cheapest_cut(bytes, ends, stages));
  }
  return cut_by_costs(network, costs_by_products(network), stages);
}

std::vector<double> costs_by_products(const NetworkSpec& network) {
  std::vector<double> costs;
  for (const Layer& layer : network.layers) {
    costs.push_back(static_cast<double>(layer.multiply_adds() + layer.out.size()));
  }
  return costs;
}

Result<std::vector<StageSpec>> cut_by_costs(const NetworkSpec& network, std::span<const double> costs,
                                            std::uint32_t stages, std::span<const double> speeds) {
  const std::vector<std::int64_t> ends = parameter_ends(network);
  PACELINE_RETURN_IF_ERROR(check_count(ends, stages));
  std::vector<double> sums(costs.size() + 1, 0.0);
  std::partial_sum(costs.begin(), costs.end(), sums.begin() + 1);
  const CostOfStage time = [&](std::uint32_t stage, std::size_t first, std::size_t last) {
    return (sums[last] - sums[first]) / (speeds.empty() ? 1.0 : speeds[stage]);
  };
  return stages_at(network, ends, cheapest_cut(time, ends, stages));
}

StageSpec stage_of_layers(const NetworkSpec& network, std::size_t first, std::size_t last) {
  return stage_between(network, parameter_ends(network), first, last);
}

StageSpec whole_network(const NetworkSpec& network) {
  return {0, network.layers.size(), {0}, {}, {0, network.layout.size()}};
}

std::int64_t group_samples(const RunConfig& config) {
  return std::int64_t{config.pipeline.stages} * config.train.batch_size;
}

Result<std::vector<StageSpec>> stages_of_run(const RunConfig& config, const NetworkSpec& network) {
  if (!config.pipeline.enabled()) return std::vector<StageSpec>{whole_network(network)};
  const PipelineSection& pipeline = config.pipeline;
  const auto micro_batches = static_cast<std::uint32_t>(pipeline.micro_batches);
  const std::vector<std::int64_t> one(pipeline.rematerialize == Rematerialize::kOn ? pipeline.stages : 0, 1);
  KeptByStages kept{
      {}, schedule::micro_batch_sizes(group_samples(config), micro_batches), reducing_vectors(config)};
  kept.stages = schedule::plan_pipeline(pipeline.schedule, pipeline.stages, micro_batches, one).bounds;
  return cut_into_stages(network, pipeline.stages, pipeline.balance, kept);
}

std::int64_t floats_of(const NetworkSpec& network, const std::vector<std::size_t>& values) {
  std::int64_t floats = 0;
  for (const std::size_t value : values) floats += network.shape_of(value).size();
  return floats;
}

std::vector<bool> trained_values(const NetworkSpec& network) {
  std::vector<bool> trained(network.layers.size() + 1, false);
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    trained[i + 1] = layer.weight.size > 0 || std::any_of(layer.inputs.begin(), layer.inputs.end(),
                                                          [&](std::size_t value) { return trained[value]; });
  }
  return trained;
}

std::vector<std::size_t> only_trained(const NetworkSpec& network, const std::vector<std::size_t>& values) {
  const std::vector<bool> trained = trained_values(network);
  std::vector<std::size_t> found;
  std::copy_if(values.begin(), values.end(), std::back_inserter(found),
               [&](std::size_t value) { return trained[value]; });
  return found;
}

StageCost cost_of(const NetworkSpec& network, const StageSpec& stage) {
  StageCost cost;
  for (std::size_t i = stage.first; i < stage.last; ++i) {
    cost.multiply_adds += network.layers[i].multiply_adds();
    cost.activations += network.layers[i].out.size();
  }
  return cost;
}

}  // namespace paceline
