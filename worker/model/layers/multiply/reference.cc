#include "worker/model/layers/multiply/elements.h"
#include "worker/model/layers/reference_elements.h"

namespace paceline::layers::multiply {

std::unique_ptr<ReferenceLayer> make_reference(const Layer&, std::size_t) {
  return std::make_unique<ReferenceElements<Multiply>>();
}

}  // namespace paceline::layers::multiply
