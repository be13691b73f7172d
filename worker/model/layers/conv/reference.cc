//   out[o,y,x] = bias[o] + sum over c,ky,kx of weight[o,c,ky,kx] * in[c, y*s + ky*d - p, x*s + kx*d - p]
//
// c counts the channels of the group that o is in.
#include <algorithm>

#include "worker/model/layers/reference_layer.h"

namespace paceline::layers::conv {
namespace {

// The output columns x (or rows) for which x * stride + shift is inside [0, size): [begin, end).
struct Inside {
  std::int64_t begin;
  std::int64_t end;
  Inside(std::int64_t shift, std::int64_t stride, std::int64_t size, std::int64_t out)
      : begin(shift >= 0 ? 0 : (-shift + stride - 1) / stride),
        end(shift >= size ? 0 : std::min(out, (size - 1 - shift) / stride + 1)) {}
};

// Calls row(weight index, output offset, input offset, count) for each run of outputs along a row that one
// weight takes part in; the input advances by `stride`. Forward and both backward passes of a convolution are
// this loop.
template <typename Row>
void for_each_row(const Layer& layer, Row row) {
  const std::int64_t k = layer.kernel;
  const std::int64_t channels = layer.in.channels / layer.groups;
  std::int64_t weight = 0;
  for (std::int64_t o = 0; o < layer.out.channels; ++o) {
    const std::int64_t first = o / (layer.out.channels / layer.groups) * channels;
    for (std::int64_t c = first; c < first + channels; ++c) {
      for (std::int64_t ky = 0; ky < k; ++ky) {
        const std::int64_t down = ky * layer.dilation - layer.padding;
        const Inside ys(down, layer.stride, layer.in.height, layer.out.height);
        for (std::int64_t kx = 0; kx < k; ++kx, ++weight) {
          const std::int64_t right = kx * layer.dilation - layer.padding;
          const Inside xs(right, layer.stride, layer.in.width, layer.out.width);
          for (std::int64_t y = ys.begin; y < ys.end; ++y) {
            const std::int64_t in_y = y * layer.stride + down;
            const std::int64_t in_x = xs.begin * layer.stride + right;
            row(weight, (o * layer.out.height + y) * layer.out.width + xs.begin,
                (c * layer.in.height + in_y) * layer.in.width + in_x,
                std::max<std::int64_t>(0, xs.end - xs.begin));
          }
        }
      }
    }
  }
}

class Convolution final : public ReferenceLayer {
 public:
  explicit Convolution(const Layer& layer) : layer_(layer) {}

  void forward(const ReferencePass& pass, std::span<const Values* const> in, Values& out) override {
    std::fill(out.begin(), out.end(), 0.0);
    const double* weights = pass.parameters.data() + layer_.weight.offset;
    for (std::int64_t n = 0; n < pass.samples; ++n) {
      const double* from = in[0]->data() + n * layer_.in.size();
      double* to = out.data() + n * layer_.out.size();
      for_each_row(layer_, [&](std::int64_t w, std::int64_t o, std::int64_t i, std::int64_t count) {
        const double weight = weights[w];
        for (std::int64_t x = 0; x < count; ++x) to[o + x] += weight * from[i + x * layer_.stride];
      });
    }
    add_bias(pass, layer_, out);
  }

  void backward(const ReferencePass& pass, std::span<const Values* const> in, const Values&,
                const Values& out_difference, std::span<Values> in_differences) override {
    add_bias_gradient(pass, layer_, out_difference);
    const double* weights = pass.parameters.data() + layer_.weight.offset;
    double* gradient = pass.gradient.data() + layer_.weight.offset;
    for (std::int64_t n = 0; n < pass.samples; ++n) {
      const double* from = in[0]->data() + n * layer_.in.size();
      const double* d_out = out_difference.data() + n * layer_.out.size();
      double* d_in = in_differences[0].data() + n * layer_.in.size();
      for_each_row(layer_, [&](std::int64_t w, std::int64_t o, std::int64_t i, std::int64_t count) {
        const double weight = weights[w];
        double sum = 0.0;
        for (std::int64_t x = 0; x < count; ++x) {
          sum += d_out[o + x] * from[i + x * layer_.stride];
          d_in[i + x * layer_.stride] += d_out[o + x] * weight;
        }
        gradient[w] += sum;
      });
    }
  }

 private:
  const Layer& layer_;
};

}  // namespace

std::unique_ptr<ReferenceLayer> make_reference(const Layer& layer, std::size_t) {
  return std::make_unique<Convolution>(layer);
}

}  // namespace paceline::layers::conv
