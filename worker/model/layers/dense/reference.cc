//   out[o] = bias[o] + sum over i of weight[o,i] * in[i]
#include "worker/model/layers/reference_layer.h"

namespace paceline::layers::dense {
namespace {

class Dense final : public ReferenceLayer {
 public:
  explicit Dense(const Layer& layer) : layer_(layer), inputs_(layer.in.size()), outputs_(layer.out.size()) {}

  void forward(const ReferencePass& pass, std::span<const Values* const> in, Values& out) override {
    for (std::int64_t n = 0; n < pass.samples; ++n) {
      const double* from = in[0]->data() + n * inputs_;
      const double* weight = pass.parameters.data() + layer_.weight.offset;
      for (std::int64_t o = 0; o < outputs_; ++o, weight += inputs_) {
        double sum = 0.0;
        for (std::int64_t i = 0; i < inputs_; ++i) sum += weight[i] * from[i];
        out[static_cast<std::size_t>(n * outputs_ + o)] = sum;
      }
    }
    add_bias(pass, layer_, out);
  }

  void backward(const ReferencePass& pass, std::span<const Values* const> in, const Values&,
                const Values& out_difference, std::span<Values> in_differences) override {
    add_bias_gradient(pass, layer_, out_difference);
    for (std::int64_t n = 0; n < pass.samples; ++n) {
      const double* from = in[0]->data() + n * inputs_;
      const double* d_out = out_difference.data() + n * outputs_;
      double* d_in = in_differences[0].data() + n * inputs_;
      const double* weight = pass.parameters.data() + layer_.weight.offset;
      double* gradient = pass.gradient.data() + layer_.weight.offset;
      for (std::int64_t o = 0; o < outputs_; ++o, weight += inputs_, gradient += inputs_) {
        const double d = d_out[o];
        for (std::int64_t i = 0; i < inputs_; ++i) {
          gradient[i] += d * from[i];
          d_in[i] += d * weight[i];
        }
      }
    }
  }

 private:
  const Layer& layer_;
  const std::int64_t inputs_;
  const std::int64_t outputs_;
};

}  // namespace

std::unique_ptr<ReferenceLayer> make_reference(const Layer& layer, std::size_t) {
  return std::make_unique<Dense>(layer);
}

}  // namespace paceline::layers::dense
