// The softmax cross-entropy of scores as a layer: a network may have several, with weights (GoogLeNet's side losses).
#include "common/label.h"
#include "common/network/layer_rule.h"

namespace paceline::layers::softmax_loss {
namespace {

Status infer(const LayerConfig& config, LayerDraft& draft) {
  const Shape& in = draft.in().front();
  if (in.height * in.width != 1) {
    return invalid_argument("scores of " + to_string(in) + ", expected one for each class");
  }
  PACELINE_RETURN_IF_ERROR(check_range("top_k", config.top_k, 1, in.channels));
  if (config.divisor == LossDivisor::kElements) {
    return invalid_argument("divisor elements, expected valid or samples: a sample has one loss");
  }
  if (config.ignore_label == -1 && in.channels == kClassesMax) {
    return invalid_argument("ignore_label -1 beside " + std::to_string(kClassesMax) +
                            " classes, expected one of these: a label has 16 bits");
  }
  Layer& layer = draft.layer();
  layer.loss.ignore_label = config.ignore_label;
  layer.loss.divisor = config.divisor;
  layer.loss.top_k = config.top_k;
  return draft.become_loss(config);
}

}  // namespace

extern const LayerRule kRule{
    .default_name = "loss", .is_loss = true, .counts_hits = true, .has_divisor = true, .infer = infer};

}  // namespace paceline::layers::softmax_loss
