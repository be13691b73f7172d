#include "worker/model/layers/maximum/elements.h"
#include "worker/model/layers/reference_elements.h"

namespace paceline::layers::maximum {

std::unique_ptr<ReferenceLayer> make_reference(const Layer&, std::size_t) {
  return std::make_unique<ReferenceElements<Maximum>>();
}

}  // namespace paceline::layers::maximum
