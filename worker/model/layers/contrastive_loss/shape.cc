// Brings pairs that are alike together, and others apart: for two networks with the same weights (siamese).
#include "common/network/layer_rule.h"

namespace paceline::layers::contrastive_loss {
namespace {

Status infer(const LayerConfig& config, LayerDraft& draft) {
  PACELINE_RETURN_IF_ERROR(draft.check_compared());
  draft.layer().loss.margin = config.margin;
  draft.layer().loss.legacy = config.legacy;
  return draft.become_loss(config);
}

}  // namespace

extern const LayerRule kRule{.default_name = "contrastive_loss",
                             .inputs_min = 2,
                             .inputs_max = 2,
                             .is_loss = true,
                             .has_margin = true,
                             .infer = infer};

}  // namespace paceline::layers::contrastive_loss
