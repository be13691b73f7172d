// The mean of each channel (Lin et al., "Network In Network", 2014, section 3.2).
#include "common/network/layer_rule.h"

namespace paceline::layers::global_average_pool {
namespace {

Status infer(const LayerConfig&, LayerDraft& draft) {
  Layer& layer = draft.layer();
  if (layer.is_vector) {
    return invalid_argument("needs an image, but its input is a vector of " +
                            std::to_string(layer.in.size()) + " units");
  }
  layer.out = {layer.in.channels, 1, 1};
  return Status::ok();
}

}  // namespace

extern const LayerRule kRule{.default_name = "global_average_pool", .gives_logits = true, .infer = infer};

}  // namespace paceline::layers::global_average_pool
