//   out[i] = in[i] * s[i]^-beta,   s[i] = k + alpha / n * sum over j near i of in[j]^2
//
// Near are n = size channels at one place, or the n = size^2 places of a square in one channel; outside the
// image there is nothing, but n stays (Caffe: lrn_layer.cpp; within a channel k is 1). "Near" goes both ways,
// so
//
//   d(loss)/d in[i] = d[i] * s[i]^-beta - 2 alpha beta / n * in[i] * sum over j near i of d[j] in[j] s[j]^(-beta - 1)
#include <algorithm>
#include <cmath>

#include "worker/model/layers/reference_layer.h"

namespace paceline::layers::lrn {
namespace {

class Lrn final : public ReferenceLayer {
 public:
  explicit Lrn(const Layer& layer) : layer_(layer) {}

  void forward(const ReferencePass& pass, std::span<const Values* const> in, Values& out) override {
    const Values& x = *in[0];
    scales_.resize(out.size());
    for (std::int64_t n = 0; n < pass.samples; ++n) {
      const std::int64_t first = n * layer_.in.size();
      for_each_element([&](std::int64_t c, std::int64_t row, std::int64_t column, std::int64_t at) {
        const std::int64_t i = first + at;
        double sum = 0.0;
        for_each_near(c, row, column, [&](std::int64_t j) { sum += x[first + j] * x[first + j]; });
        scales_[i] = layer_.lrn.k + layer_.lrn.alpha / near_count() * sum;
        out[i] = x[i] * std::pow(scales_[i], -layer_.lrn.beta);
      });
    }
    pass.keep(out);
  }

  void backward(const ReferencePass& pass, std::span<const Values* const> in, const Values&,
                const Values& out_difference, std::span<Values> in_differences) override {
    const Values& x = *in[0];
    const double beta = layer_.lrn.beta;
    for (std::int64_t n = 0; n < pass.samples; ++n) {
      const std::int64_t first = n * layer_.in.size();
      for_each_element([&](std::int64_t c, std::int64_t row, std::int64_t column, std::int64_t at) {
        const std::int64_t i = first + at;
        double sum = 0.0;
        for_each_near(c, row, column, [&](std::int64_t near) {
          const std::int64_t j = first + near;
          sum += out_difference[j] * x[j] * std::pow(scales_[j], -beta - 1.0);
        });
        in_differences[0][i] = out_difference[i] * std::pow(scales_[i], -beta) -
                               2.0 * layer_.lrn.alpha * beta / near_count() * x[i] * sum;
      });
    }
  }

 private:
  double near_count() const {
    const auto size = static_cast<double>(layer_.lrn.size);
    return layer_.lrn.region == LrnRegion::kAcross ? size : size * size;
  }

  // Of one sample: use(channel, row, column, offset).
  template <typename Use>
  void for_each_element(Use use) const {
    std::int64_t at = 0;
    for (std::int64_t c = 0; c < layer_.in.channels; ++c) {
      for (std::int64_t row = 0; row < layer_.in.height; ++row) {
        for (std::int64_t column = 0; column < layer_.in.width; ++column, ++at) use(c, row, column, at);
      }
    }
  }

  template <typename Use>
  void for_each_near(std::int64_t c, std::int64_t row, std::int64_t column, Use use) const {
    const std::int64_t reach = layer_.lrn.size / 2;
    const bool across = layer_.lrn.region == LrnRegion::kAcross;
    const auto range = [&](std::int64_t at, std::int64_t size, bool wide) {
      return std::pair{wide ? std::max<std::int64_t>(0, at - reach) : at,
                       wide ? std::min(size, at + reach + 1) : at + 1};
    };
    const auto [c_begin, c_end] = range(c, layer_.in.channels, across);
    const auto [row_begin, row_end] = range(row, layer_.in.height, !across);
    const auto [column_begin, column_end] = range(column, layer_.in.width, !across);
    for (std::int64_t i = c_begin; i < c_end; ++i) {
      for (std::int64_t j = row_begin; j < row_end; ++j) {
        for (std::int64_t l = column_begin; l < column_end; ++l) {
          use((i * layer_.in.height + j) * layer_.in.width + l);
        }
      }
    }
  }

  const Layer& layer_;
  Values scales_;  // s, of each sample
};

}  // namespace

std::unique_ptr<ReferenceLayer> make_reference(const Layer& layer, std::size_t) {
  return std::make_unique<Lrn>(layer);
}

}  // namespace paceline::layers::lrn
