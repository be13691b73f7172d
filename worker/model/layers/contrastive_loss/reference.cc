#include "worker/model/layers/contrastive_loss/rows.h"

namespace paceline::layers::contrastive_loss {

std::unique_ptr<ReferenceLayer> make_reference(const Layer& layer, std::size_t) {
  return std::make_unique<ReferenceLoss<ContrastiveLoss>>(layer);
}

}  // namespace paceline::layers::contrastive_loss
