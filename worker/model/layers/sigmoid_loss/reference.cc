#include "worker/model/layers/sigmoid_loss/rows.h"

namespace paceline::layers::sigmoid_loss {

std::unique_ptr<ReferenceLayer> make_reference(const Layer& layer, std::size_t) {
  return std::make_unique<ReferenceLoss<SigmoidLoss>>(layer);
}

}  // namespace paceline::layers::sigmoid_loss
