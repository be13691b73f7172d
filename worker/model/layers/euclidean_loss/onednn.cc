#include "worker/model/layers/euclidean_loss/rows.h"
#include "worker/model/layers/onednn_loss.h"

namespace paceline::layers::euclidean_loss {
namespace {

using namespace onednn;

std::unique_ptr<OnednnLayer> make(const Layer& layer, std::size_t, std::int64_t samples) {
  return std::make_unique<OnednnLoss<EuclideanLoss>>(layer, samples);
}

}  // namespace

extern const OnednnKind kOnednn{.make = make, .by_shape = true};

}  // namespace paceline::layers::euclidean_loss
