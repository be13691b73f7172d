#include <algorithm>
#include <vector>

#include "worker/model/layers/reference_layer.h"

namespace paceline::layers::add {
namespace {

class Add final : public ReferenceLayer {
 public:
  explicit Add(const Layer& layer) : coefficients_(layer.coefficients) {}

  void forward(const ReferencePass& pass, std::span<const Values* const> in, Values& out) override {
    out = *in[0];
    for (double& value : out) value *= coefficient(0);
    for (std::size_t k = 1; k < in.size(); ++k) {
      std::transform(out.begin(), out.end(), in[k]->begin(), out.begin(),
                     [c = coefficient(k)](double sum, double next) { return sum + c * next; });
      pass.keep(out);
    }
  }

  void backward(const ReferencePass&, std::span<const Values* const>, const Values&,
                const Values& out_difference, std::span<Values> in_differences) override {
    for (std::size_t k = 0; k < in_differences.size(); ++k) {
      in_differences[k] = out_difference;
      for (double& difference : in_differences[k]) difference *= coefficient(k);
    }
  }

 private:
  double coefficient(std::size_t input) const { return coefficients_.empty() ? 1.0 : coefficients_[input]; }

  const std::vector<double> coefficients_;
};

}  // namespace

std::unique_ptr<ReferenceLayer> make_reference(const Layer& layer, std::size_t) {
  return std::make_unique<Add>(layer);
}

}  // namespace paceline::layers::add
