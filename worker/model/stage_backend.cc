#include "worker/model/stage_backend.h"

#include <string>
#include <utility>

namespace paceline {

NetworkSpec of_stage(NetworkSpec network, const StageSpec& stage) {
  for (std::size_t i = stage.first; i < stage.last; ++i) {
    Layer& layer = network.layers[i];
    for (ParameterRange* const range :
         {&layer.weight, &layer.bias, &layer.running_mean, &layer.running_variance, &layer.running_weight}) {
      if (range->size > 0) range->offset -= stage.parameters.begin;
    }
  }
  network.layout = part_of(network.layout, stage.parameters);
  return network;
}

Result<std::unique_ptr<StageBackend>> make_stage_backend(Backend kind, const NetworkSpec& network,
                                                         const StageSpec& stage, std::int64_t samples,
                                                         std::uint64_t seed) {
  if (samples < 1) return invalid_argument(std::to_string(samples) + " samples, expected at least 1");
  NetworkSpec own = of_stage(network, stage);
  if (kind == Backend::kReference) return make_reference_stage(std::move(own), stage, seed);
  return make_onednn_stage(std::move(own), stage, samples, seed);
}

}  // namespace paceline
