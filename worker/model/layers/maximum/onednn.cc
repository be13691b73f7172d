#include "worker/model/layers/maximum/elements.h"
#include "worker/model/layers/onednn_elements.h"

namespace paceline::layers::maximum {
namespace {

using namespace onednn;

std::unique_ptr<OnednnLayer> make(const Layer&, std::size_t, std::int64_t) {
  return std::make_unique<Elements<Maximum>>();
}

}  // namespace

extern const OnednnKind kOnednn{.make = make, .by_shape = true};

}  // namespace paceline::layers::maximum
