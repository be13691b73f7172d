#include "common/network/stages.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "common/assert.h"
#include "common/config/reducing.h"
#include "common/network/stage_plan.h"

namespace paceline {
namespace {

// By layer: how many parameters it and those in front of it have.
std::vector<std::int64_t> parameter_ends(const NetworkSpec& network) {
  std::vector<std::int64_t> ends;
  for (const Layer& layer : network.layers) {
    ends.push_back((ends.empty() ? 0 : ends.back()) + layer.tensors().size);
  }
  PACELINE_ASSERT(ends.back() == network.layout.size(), std::to_string(ends.back()));
  return ends;
}

// Where the parameters of layers [first, last) are, which lie together.
Range range_of(const NetworkSpec& network, std::size_t first, std::size_t last) {
  Range range{0, 0};
  for (std::size_t i = first; i < last; ++i) {
    const ParameterRange own = network.layers[i].tensors();
    if (range.size() == 0) range = {own.offset, own.offset};
    range.end += own.size;
  }
  return range;
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

// What parts of a network are called.
struct Words {
  const char* one;
  const char* many;
};
Words words_of(std::uint32_t chunks) {
  return chunks > 1 ? Words{" chunk ", " chunks "} : Words{" stage ", " stages "};
}

Result<std::vector<std::size_t>> cut_by_hand(const NetworkSpec& network, std::uint32_t stages,
                                             const std::vector<std::uint32_t>& layers,
                                             const std::vector<std::int64_t>& ends, const Words& words) {
  const std::size_t all = network.layers.size();
  std::vector<std::size_t> cuts;
  std::size_t sum = 0;
  for (const std::uint32_t count : layers) cuts.push_back(sum += count);
  if (layers.size() != stages || sum != all) {
    return invalid_argument("got " + std::to_string(layers.size()) + words.many + "of " +
                            std::to_string(sum) + " layers, expected " + std::to_string(stages) + " of " +
                            std::to_string(all));
  }
  for (std::size_t s = 0; s < cuts.size(); ++s) {
    const std::int64_t before = s == 0 ? 0 : ends[cuts[s - 1] - 1];
    if (ends[cuts[s] - 1] > before) continue;
    return invalid_argument(std::string("got") + words.one + std::to_string(s) +
                            " without parameters, expected a layer with some in each");
  }
  return cuts;
}

std::vector<StageSpec> stages_at(const NetworkSpec& network, const std::vector<std::size_t>& cuts) {
  std::vector<StageSpec> cut;
  for (std::size_t s = 0; s < cuts.size(); ++s) {
    cut.push_back(stage_of_layers(network, s == 0 ? 0 : cuts[s - 1], cuts[s]));
  }
  return cut;
}

// Whether each of `parts` can have a layer with parameters.
Status check_count(const std::vector<std::int64_t>& ends, std::uint32_t parts, const Words& words) {
  std::int64_t with_parameters = 0;
  for (std::size_t i = 0; i < ends.size(); ++i)
    with_parameters += ends[i] > (i == 0 ? 0 : ends[i - 1]) ? 1 : 0;
  if (parts <= with_parameters) return Status::ok();
  std::string got = "got " + std::to_string(parts) + words.many;
  got.back() = ',';
  return invalid_argument(got + " expected at most " + std::to_string(with_parameters) +
                          ", the layers with parameters");
}

}  // namespace

bool cut_by_loop(const StageBalance& balance) {
  return balance.kind == BalanceKind::kLayers && balance.layers.empty();
}

Result<std::vector<StageSpec>> cut_into_stages(const NetworkSpec& network, std::uint32_t stages,
                                               const StageBalance& balance, const KeptByStages& kept,
                                               std::uint32_t chunks) {
  if (cut_by_loop(balance)) {
    return invalid_argument("got loop without a training loop of one's own, expected time, memory or a list");
  }
  const std::vector<std::int64_t> ends = parameter_ends(network);
  const std::uint32_t parts = stages * chunks;
  PACELINE_RETURN_IF_ERROR(check_count(ends, parts, words_of(chunks)));
  if (balance.kind == BalanceKind::kLayers) {
    PACELINE_ASSIGN_OR_RETURN(const auto cuts,
                              cut_by_hand(network, parts, balance.layers, ends, words_of(chunks)));
    return stages_at(network, cuts);
  }
  if (balance.kind == BalanceKind::kMemory) {
    std::vector<std::vector<std::size_t>> values;  // that pass in front of each layer
    for (std::size_t i = 0; i <= ends.size(); ++i) values.push_back(passing(network, i));
    const CostOfStage bytes = [&](std::uint32_t part, std::size_t first, std::size_t last) {
      const Range own{first == 0 ? 0 : ends[first - 1], ends[last - 1]};
      const StageSpec spec{first, last, values[first], values[last], own};
      return static_cast<double>(
          stage_bytes(network, spec, kept.stages[part], kept.sizes, kept.more_vectors));
    };
    return stages_at(network, cheapest_cut(bytes, ends, parts));
  }
  return cut_by_costs(network, costs_by_products(network), stages, {}, chunks);
}

std::vector<double> costs_by_products(const NetworkSpec& network) {
  std::vector<double> costs;
  for (const Layer& layer : network.layers) {
    costs.push_back(static_cast<double>(layer.multiply_adds() + layer.out.size()));
  }
  return costs;
}

Result<std::vector<StageSpec>> cut_by_costs(const NetworkSpec& network, std::span<const double> costs,
                                            std::uint32_t stages, std::span<const double> speeds,
                                            std::uint32_t chunks) {
  const std::vector<std::int64_t> ends = parameter_ends(network);
  const std::uint32_t parts = stages * chunks;
  PACELINE_RETURN_IF_ERROR(check_count(ends, parts, words_of(chunks)));
  std::vector<double> sums(costs.size() + 1, 0.0);
  std::partial_sum(costs.begin(), costs.end(), sums.begin() + 1);
  const CostOfStage time = [&](std::uint32_t part, std::size_t first, std::size_t last) {
    return (sums[last] - sums[first]) / (speeds.empty() ? 1.0 : speeds[part % stages]);
  };
  return stages_at(network, cheapest_cut(time, ends, parts));
}

StageSpec stage_of_layers(const NetworkSpec& network, std::size_t first, std::size_t last) {
  return {first, last, passing(network, first), passing(network, last), range_of(network, first, last)};
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
  PACELINE_RETURN_IF_ERROR(
      schedule::check_has_plan(pipeline.schedule, pipeline.stages, pipeline.micro_batches));
  const auto micro_batches = static_cast<std::uint32_t>(pipeline.micro_batches);
  const std::uint32_t chunks = pipeline.chunks_of_stage();
  const std::size_t parts = std::size_t{pipeline.stages} * chunks;
  const std::vector<std::int64_t> one(pipeline.rematerialize == Rematerialize::kOn ? parts : 0, 1);
  KeptByStages kept{
      {}, schedule::micro_batch_sizes(group_samples(config), micro_batches), reducing_vectors(config)};
  if (pipeline.balance.kind == BalanceKind::kMemory) {
    kept.stages =
        schedule::plan_pipeline(pipeline.schedule, pipeline.stages, micro_batches, one, chunks).bounds;
  }
  return cut_into_stages(network, pipeline.stages, pipeline.balance, kept, chunks);
}

std::vector<StageSpec> lay_out_by_stages(NetworkSpec& network, const std::vector<StageSpec>& parts,
                                         std::uint32_t stages) {
  Layout layout;
  const auto move_after = [&](Layer& layer) {
    const ParameterRange own = layer.tensors();
    if (own.size == 0) return;
    const std::int64_t moved = layout.size() - own.offset;
    for (const Tensor& tensor : network.layout.tensors()) {
      if (tensor.offset < own.offset || tensor.offset >= own.offset + own.size) continue;
      const auto added = layout.add(tensor.name, tensor.shape, tensor.traits);
      PACELINE_ASSERT(added.is_ok(), tensor.name);
    }
    for (ParameterRange* const range :
         {&layer.weight, &layer.bias, &layer.running_mean, &layer.running_variance, &layer.running_weight}) {
      if (range->size > 0) range->offset += moved;
    }
  };
  for (std::size_t s = 0; s < stages; ++s) {
    for (std::size_t part = s; part < parts.size(); part += stages) {
      for (std::size_t i = parts[part].first; i < parts[part].last; ++i) move_after(network.layers[i]);
    }
  }
  network.layout = std::move(layout);
  std::vector<StageSpec> there = parts;
  for (StageSpec& part : there) part.parameters = range_of(network, part.first, part.last);
  return there;
}

std::vector<Range> held_by_stages(const std::vector<StageSpec>& parts, std::uint32_t stages) {
  std::vector<Range> held;
  for (std::size_t s = 0; s < stages; ++s) {
    Range& own = held.emplace_back(parts[s].parameters);
    for (std::size_t part = s + stages; part < parts.size(); part += stages) {
      PACELINE_ASSERT(parts[part].parameters.begin == own.end, "parts of a stage that lie apart");
      own.end = parts[part].parameters.end;
    }
  }
  return held;
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
