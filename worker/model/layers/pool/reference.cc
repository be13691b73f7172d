// The largest value of each window, and where it was (the first of equals): there alone the gradient goes
// back.
#include <algorithm>
#include <vector>

#include "worker/model/layers/reference_layer.h"

namespace paceline::layers::pool {
namespace {

class MaxPool final : public ReferenceLayer {
 public:
  explicit MaxPool(const Layer& layer) : layer_(layer) {}

  void forward(const ReferencePass& pass, std::span<const Values* const> in, Values& out) override {
    argmax_.resize(out.size());
    for (std::int64_t n = 0; n < pass.samples; ++n) {
      forward_one(in[0]->data() + n * layer_.in.size(), out.data() + n * layer_.out.size(),
                  argmax_.data() + n * layer_.out.size());
    }
  }

  void backward(const ReferencePass& pass, std::span<const Values* const>, const Values&,
                const Values& out_difference, std::span<Values> in_differences) override {
    for (std::int64_t n = 0; n < pass.samples; ++n) {
      const std::int64_t* argmax = argmax_.data() + n * layer_.out.size();
      const double* d_out = out_difference.data() + n * layer_.out.size();
      double* d_in = in_differences[0].data() + n * layer_.in.size();
      for (std::int64_t j = 0; j < layer_.out.size(); ++j) d_in[argmax[j]] += d_out[j];
    }
  }

 private:
  void forward_one(const double* in, double* out, std::int64_t* argmax) const {
    std::int64_t j = 0;
    for (std::int64_t c = 0; c < layer_.out.channels; ++c) {
      for (std::int64_t y = 0; y < layer_.out.height; ++y) {
        for (std::int64_t x = 0; x < layer_.out.width; ++x, ++j) {
          const std::int64_t top = y * layer_.stride - layer_.padding;
          const std::int64_t left = x * layer_.stride - layer_.padding;
          std::int64_t best = -1;
          for (std::int64_t in_y = std::max<std::int64_t>(0, top);
               in_y < std::min(layer_.in.height, top + layer_.kernel); ++in_y) {
            for (std::int64_t in_x = std::max<std::int64_t>(0, left);
                 in_x < std::min(layer_.in.width, left + layer_.kernel); ++in_x) {
              const std::int64_t at = (c * layer_.in.height + in_y) * layer_.in.width + in_x;
              if (best < 0 || in[at] > in[best]) best = at;
            }
          }
          argmax[j] = best;
          out[j] = in[best];
        }
      }
    }
  }

  const Layer& layer_;
  std::vector<std::int64_t> argmax_;  // within its sample
};

}  // namespace

std::unique_ptr<ReferenceLayer> make_reference(const Layer& layer, std::size_t) {
  return std::make_unique<MaxPool>(layer);
}

}  // namespace paceline::layers::pool
