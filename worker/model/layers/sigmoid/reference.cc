//   out = 1 / (1 + exp(-in)),   d(loss)/d in = d * out * (1 - out)
#include <algorithm>
#include <cmath>

#include "worker/model/layers/reference_layer.h"

namespace paceline::layers::sigmoid {
namespace {

class Sigmoid final : public ReferenceLayer {
 public:
  void forward(const ReferencePass& pass, std::span<const Values* const> in, Values& out) override {
    std::transform(in[0]->begin(), in[0]->end(), out.begin(),
                   [](double x) { return 1.0 / (1.0 + std::exp(-x)); });
    pass.keep(out);
  }

  void backward(const ReferencePass&, std::span<const Values* const>, const Values& out,
                const Values& out_difference, std::span<Values> in_differences) override {
    std::transform(out.begin(), out.end(), out_difference.begin(), in_differences[0].begin(),
                   [](double y, double d) { return d * y * (1.0 - y); });
  }
};

}  // namespace

std::unique_ptr<ReferenceLayer> make_reference(const Layer&, std::size_t) {
  return std::make_unique<Sigmoid>();
}

}  // namespace paceline::layers::sigmoid
