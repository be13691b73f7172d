#include <algorithm>
#include <functional>

#include "worker/model/dropout.h"
#include "worker/model/layers/reference_layer.h"

namespace paceline::layers::dropout {
namespace {

class Dropout final : public ReferenceLayer {
 public:
  Dropout(const Layer& layer, std::size_t index) : layer_(layer), index_(index) {}

  void forward(const ReferencePass& pass, std::span<const Values* const> in, Values& out) override {
    if (pass.mode == Mode::kEvaluation) {
      out = *in[0];
      return;
    }
    mask_.resize(out.size());
    fill_dropout_mask(layer_, index_, pass.seed, pass.batch, mask_);
    std::transform(in[0]->begin(), in[0]->end(), mask_.begin(), out.begin(), std::multiplies<>());
    pass.keep(out);
  }

  void backward(const ReferencePass&, std::span<const Values* const>, const Values&,
                const Values& out_difference, std::span<Values> in_differences) override {
    std::transform(out_difference.begin(), out_difference.end(), mask_.begin(), in_differences[0].begin(),
                   std::multiplies<>());
  }

 private:
  const Layer& layer_;
  const std::size_t index_;
  std::vector<float> mask_;
};

}  // namespace

std::unique_ptr<ReferenceLayer> make_reference(const Layer& layer, std::size_t index) {
  return std::make_unique<Dropout>(layer, index);
}

}  // namespace paceline::layers::dropout
