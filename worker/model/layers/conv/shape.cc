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
  return draft.add_parameters(config, {config.out, layer.in.channels, layer.kernel, layer.kernel});
}

}  // namespace

extern const LayerRule kRule{
    .default_name = "conv", .has_out = true, .window = defaults, .has_parameters = true, .infer = infer};

}  // namespace paceline::layers::conv
