#include "common/network/layer_rule.h"

namespace paceline::layers::dense {
namespace {

Status infer(const LayerConfig& config, LayerDraft& draft) {
  PACELINE_RETURN_IF_ERROR(check_range("out", config.out, 1, kLayerOutMax));
  Layer& layer = draft.layer();
  layer.out = {config.out, 1, 1};
  layer.is_vector = true;
  return draft.add_parameters(config, {config.out, layer.in.size()});
}

bool is_on_gpu(const Layer& layer) { return !layer.shares_weights; }

}  // namespace

extern const LayerRule kRule{.default_name = "fc",
                             .has_out = true,
                             .has_parameters = true,
                             .may_lack_bias = true,
                             .may_share = true,
                             .sums_channels = true,
                             .gives_logits = true,
                             .infer = infer,
                             .is_on_gpu = is_on_gpu};

}  // namespace paceline::layers::dense
