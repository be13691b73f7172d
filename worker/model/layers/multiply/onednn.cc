#include "worker/model/layers/multiply/elements.h"
#include "worker/model/layers/onednn_elements.h"

namespace paceline::layers::multiply {
namespace {

using namespace onednn;

std::unique_ptr<OnednnLayer> make(const Layer&, std::size_t, std::int64_t) {
  return std::make_unique<Elements<Multiply>>();
}

}  // namespace

extern const OnednnKind kOnednn{.make = make, .by_shape = true};

}  // namespace paceline::layers::multiply
