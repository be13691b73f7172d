// Half the squared distance of two values, or of one number and the label.
#include "common/network/layer_rule.h"

namespace paceline::layers::euclidean_loss {
namespace {

Status infer(const LayerConfig& config, LayerDraft& draft) {
  PACELINE_RETURN_IF_ERROR(draft.check_compared());
  return draft.become_loss(config);
}

}  // namespace

extern const LayerRule kRule{
    .default_name = "euclidean_loss", .inputs_max = 2, .is_loss = true, .infer = infer};

}  // namespace paceline::layers::euclidean_loss
