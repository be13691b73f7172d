#include "worker/model/layers/onednn_loss.h"
#include "worker/model/layers/sigmoid_loss/rows.h"

namespace paceline::layers::sigmoid_loss {
namespace {

using namespace onednn;

std::unique_ptr<OnednnLayer> make(const Layer& layer, std::size_t, std::int64_t samples) {
  return std::make_unique<OnednnLoss<SigmoidLoss>>(layer, samples);
}

}  // namespace

extern const OnednnKind kOnednn{.make = make, .by_shape = true};

}  // namespace paceline::layers::sigmoid_loss
