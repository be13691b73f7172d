#include "common/network/layer_rule.h"

namespace paceline::layers::conv {
namespace {

// It keeps the size where nothing else is said.
WindowDefaults defaults(std::int64_t kernel) { return {1, (kernel - 1) / 2}; }

Status infer(const LayerConfig& config, LayerDraft& draft) {
  PACELINE_RETURN_IF_ERROR(check_range("out", config.out, 1, kLayerOutMax));
  PACELINE_RETURN_IF_ERROR(draft.slide_window(config, defaults(config.kernel)));
  Layer& layer = draft.layer();
  layer.out.channels = config.out;
  if (config.groups < 1 || layer.in.channels % config.groups != 0 || config.out % config.groups != 0) {
    return invalid_argument("groups " + std::to_string(config.groups) + " of " +
                            std::to_string(layer.in.channels) + " channels and out " +
                            std::to_string(config.out) + ", expected a number that divides both");
  }
  layer.groups = config.groups;
  return draft.add_parameters(config,
                              {config.out, layer.in.channels / layer.groups, layer.kernel, layer.kernel});
}

bool is_on_gpu(const Layer& layer) {
  return layer.groups == 1 && layer.dilation == 1 && !layer.shares_weights;
}

}  // namespace

extern const LayerRule kRule{.default_name = "conv",
                             .has_out = true,
                             .window = defaults,
                             .has_groups = true,
                             .has_parameters = true,
                             .may_lack_bias = true,
                             .may_share = true,
                             .sums_channels = true,
                             .infer = infer,
                             .is_on_gpu = is_on_gpu};

}  // namespace paceline::layers::conv
