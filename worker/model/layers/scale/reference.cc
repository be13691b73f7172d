//   out = gamma x + beta      d(gamma) = sum d(out) x      d(beta) = sum d(out)      d(x) = gamma d(out)
//
// Each channel has its own two numbers; the sums go over all samples and places.
#include "worker/model/layers/reference_layer.h"

namespace paceline::layers::scale {
namespace {

class Scale final : public ReferenceLayer {
 public:
  explicit Scale(const Layer& layer) : layer_(layer), plane_(layer.out.height * layer.out.width) {}

  void forward(const ReferencePass& pass, std::span<const Values* const> in, Values& out) override {
    const double* const gamma = pass.parameters.data() + layer_.weight.offset;
    for (std::int64_t i = 0; i < std::ssize(out); ++i) {
      out[static_cast<std::size_t>(i)] = gamma[channel(i)] * (*in[0])[static_cast<std::size_t>(i)];
    }
    add_bias(pass, layer_, out);
  }

  void backward(const ReferencePass& pass, std::span<const Values* const> in, const Values&,
                const Values& out_difference, std::span<Values> in_differences) override {
    add_bias_gradient(pass, layer_, out_difference);
    const double* const gamma = pass.parameters.data() + layer_.weight.offset;
    double* const gradient = pass.gradient.data() + layer_.weight.offset;
    for (std::int64_t i = 0; i < std::ssize(out_difference); ++i) {
      const auto at = static_cast<std::size_t>(i);
      gradient[channel(i)] += out_difference[at] * (*in[0])[at];
      in_differences[0][at] = gamma[channel(i)] * out_difference[at];
    }
  }

 private:
  std::int64_t channel(std::int64_t i) const { return i / plane_ % layer_.out.channels; }

  const Layer& layer_;
  const std::int64_t plane_;  // places of a channel
};

}  // namespace

std::unique_ptr<ReferenceLayer> make_reference(const Layer& layer, std::size_t) {
  return std::make_unique<Scale>(layer);
}

}  // namespace paceline::layers::scale
