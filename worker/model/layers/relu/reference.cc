#include <algorithm>

#include "worker/model/layers/reference_layer.h"

namespace paceline::layers::relu {
namespace {

class Relu final : public ReferenceLayer {
 public:
  void forward(const ReferencePass&, std::span<const Values* const> in, Values& out) override {
    std::transform(in[0]->begin(), in[0]->end(), out.begin(), [](double x) { return x < 0.0 ? 0.0 : x; });
  }

  void backward(const ReferencePass&, std::span<const Values* const> in, const Values&,
                const Values& out_difference, std::span<Values> in_differences) override {
    std::transform(in[0]->begin(), in[0]->end(), out_difference.begin(), in_differences[0].begin(),
                   [](double x, double d) { return x > 0.0 ? d : 0.0; });
  }
};

}  // namespace

std::unique_ptr<ReferenceLayer> make_reference(const Layer&, std::size_t) { return std::make_unique<Relu>(); }

}  // namespace paceline::layers::relu
