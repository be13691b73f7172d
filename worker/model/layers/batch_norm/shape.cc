// Batch normalisation, with scale and shift unless it is told otherwise (Ioffe and Szegedy, "Batch normalization",
// 2015): of an image channel by channel, of a vector unit by unit.
#include "common/network/layer_rule.h"

namespace paceline::layers::batch_norm {
namespace {

Status infer(const LayerConfig& config, LayerDraft& draft) {
  if (!(config.epsilon > 0.0)) {
    return invalid_argument("epsilon " + std::to_string(config.epsilon) + ", expected more than 0");
  }
  if (!(config.momentum > 0.0 && config.momentum <= 1.0)) {
    return invalid_argument("momentum " + std::to_string(config.momentum) + ", expected 0 < momentum <= 1");
  }
  draft.layer().epsilon = config.epsilon;
  return draft.add_norm(config);
}

}  // namespace

extern const LayerRule kRule{.default_name = "bn", .has_parameters = true, .is_norm = true, .infer = infer};

}  // namespace paceline::layers::batch_norm
