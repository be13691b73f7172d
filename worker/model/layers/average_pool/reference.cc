//   out[c,y,x] = sum over the window's pixels inside the image of in / divisor(y, x)
#include <algorithm>

#include "worker/model/layers/average_pool/divisor.h"
#include "worker/model/layers/reference_layer.h"

namespace paceline::layers::average_pool {
namespace {

class AveragePool final : public ReferenceLayer {
 public:
  explicit AveragePool(const Layer& layer) : layer_(layer) {}

  void forward(const ReferencePass& pass, std::span<const Values* const> in, Values& out) override {
    std::fill(out.begin(), out.end(), 0.0);
    const double* const from = in[0]->data();
    for_each_pixel(pass.samples,
                   [&](std::int64_t i, std::int64_t o, double share) { out[o] += from[i] * share; });
    pass.keep(out);
  }

  void backward(const ReferencePass& pass, std::span<const Values* const>, const Values&,
                const Values& out_difference, std::span<Values> in_differences) override {
    double* const to = in_differences[0].data();
    for_each_pixel(pass.samples,
                   [&](std::int64_t i, std::int64_t o, double share) { to[i] += out_difference[o] * share; });
  }

 private:
  // Calls use(input offset, output offset, 1 / divisor) for each pixel of each window.
  template <typename Use>
  void for_each_pixel(std::int64_t samples, Use use) const {
    std::int64_t o = 0;
    for (std::int64_t plane = 0; plane < samples * layer_.in.channels; ++plane) {
      for (std::int64_t y = 0; y < layer_.out.height; ++y) {
        for (std::int64_t x = 0; x < layer_.out.width; ++x, ++o) {
          const double share = 1.0 / static_cast<double>(divisor(layer_, y, x));
          const std::int64_t top = y * layer_.stride - layer_.padding;
          const std::int64_t left = x * layer_.stride - layer_.padding;
          for (std::int64_t in_y = std::max<std::int64_t>(0, top);
               in_y < std::min(layer_.in.height, top + layer_.kernel); ++in_y) {
            for (std::int64_t in_x = std::max<std::int64_t>(0, left);
                 in_x < std::min(layer_.in.width, left + layer_.kernel); ++in_x) {
              use((plane * layer_.in.height + in_y) * layer_.in.width + in_x, o, share);
            }
          }
        }
      }
    }
  }

  const Layer& layer_;
};

}  // namespace

std::unique_ptr<ReferenceLayer> make_reference(const Layer& layer, std::size_t) {
  return std::make_unique<AveragePool>(layer);
}

}  // namespace paceline::layers::average_pool
