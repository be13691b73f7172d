// The cross-entropy of each element after a sigmoid, against another value or the label.
#include "common/network/layer_rule.h"

namespace paceline::layers::sigmoid_loss {
namespace {

Status infer(const LayerConfig& config, LayerDraft& draft) {
  PACELINE_RETURN_IF_ERROR(draft.check_compared());
  if (config.divisor == LossDivisor::kValid) {
    return invalid_argument("divisor valid, expected samples or elements: all of them are");
  }
  draft.layer().loss.divisor = config.divisor;
  return draft.become_loss(config);
}

}  // namespace

extern const LayerRule kRule{
    .default_name = "sigmoid_loss", .inputs_max = 2, .is_loss = true, .has_divisor = true, .infer = infer};

}  // namespace paceline::layers::sigmoid_loss
