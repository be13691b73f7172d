#include "common/caffe/colours.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "common/caffe/weights.h"
#include "common/network/layer_rule.h"

namespace paceline::caffe {
namespace {

constexpr std::int64_t kColours = 3;

// Of each of the layer's outputs the weights of the first and the last colour; the layer sums them.
void exchange(const Layer& layer, std::span<float> parameters) {
  const auto outputs = static_cast<std::size_t>(layer.out.channels);
  const auto weights = parameters.subspan(static_cast<std::size_t>(layer.weight.offset),
                                          static_cast<std::size_t>(layer.weight.size));
  const std::size_t of_output = weights.size() / outputs;
  const std::size_t of_colour = of_output / kColours;
  for (std::size_t i = 0; i < outputs; ++i) {
    const auto first = weights.subspan(i * of_output, of_colour);
    std::swap_ranges(first.begin(), first.end(), first.begin() + static_cast<std::ptrdiff_t>(2 * of_colour));
  }
}

}  // namespace

Status exchange_red_and_blue(const NetworkSpec& network, std::span<float> parameters) {
  if (network.input.channels != kColours) return Status::ok();
  std::vector<bool> has_colours(network.layers.size() + 1);  // of each value
  has_colours[0] = true;
  std::set<std::int64_t> exchanged;  // offsets of weights
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    const auto reads = std::count_if(layer.inputs.begin(), layer.inputs.end(),
                                     [&](std::size_t value) { return has_colours[value]; });
    const bool is_exchanged = layer.shares_weights && exchanged.contains(layer.weight.offset);
    if (reads == 0 && !is_exchanged) continue;
    const LayerRule& rule = layer_rule(layer.kind);
    const bool adds_up = rule.sums_channels;
    const bool keeps_them =
        layer.tensors().size == 0 && !layer.shares_weights && !layer.loss.is_one && !rule.moves_channels;
    if (layer.shares_weights != is_exchanged || layer.groups != 1 || reads != std::ssize(layer.inputs) ||
        (!adds_up && !keeps_them)) {
      return invalid_argument("layer " + layer.name +
                              " keeps the picture's colours apart or mixes them with others, expected a "
                              "convolution or a dense layer that reads all three: Caffe has blue first");
    }
    if (adds_up) {
      if (exchanged.insert(layer.weight.offset).second) exchange(layer, parameters);
    } else {
      has_colours[i + 1] = true;
    }
  }
  return Status::ok();
}

Result<TensorsTaken> take_blue_first(const std::filesystem::path& path, const NetworkSpec& network,
                                     std::span<float> parameters) {
  PACELINE_ASSIGN_OR_RETURN(const ModelFile weights, read_weights(path));
  PACELINE_RETURN_IF_ERROR(exchange_red_and_blue(network, parameters).with_context(path.string()));
  // What it does not have is as before after this.
  auto taken = take_parameters(weights, path, network.layout, parameters);
  PACELINE_RETURN_IF_ERROR(exchange_red_and_blue(network, parameters));
  return taken;
}

Result<TensorsTaken> take_weights(const std::filesystem::path& path, const RunConfig& config,
                                  const Layout& layout, std::span<float> parameters) {
  if (has_other_colours(config)) {
    const Result<NetworkSpec> network = build_network(config);
    const bool is_built_in = network.is_ok() && network->layout.hash() == layout.hash();
    if (is_built_in) return take_blue_first(path, *network, parameters);
  }
  PACELINE_ASSIGN_OR_RETURN(const ModelFile weights, read_weights(path));
  return take_parameters(weights, path, layout, parameters);
}

Result<TensorsTaken> take_init_from(const RunConfig& config, const Layout& layout,
                                    std::span<float> parameters) {
  const std::string& file = config.train.init_from;
  if (!is_weights(file)) return take_parameters(file, layout, parameters);
  return take_weights(file, config, layout, parameters);
}

}  // namespace paceline::caffe
