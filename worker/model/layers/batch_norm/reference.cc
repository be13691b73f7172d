// With m values of a channel, x those of the mini-batch (all samples, all places) or, in an evaluation, with the
// running mean and variance in place of these (debiased: divided by their running weight, or 0 where that is 0):
//
//   mean = sum x / m      variance = sum (x - mean)^2 / m      z = (x - mean) / sqrt(variance + epsilon)
//   out = gamma z + beta, or z
//   d(gamma) = sum d(out) z      d(beta) = sum d(out)
//   d(x) = gamma / sqrt(variance + epsilon) (d(out) - d(beta) / m - z d(gamma) / m)
#include <cmath>

#include "worker/model/layers/reference_layer.h"

namespace paceline::layers::batch_norm {
namespace {

class BatchNorm final : public ReferenceLayer {
 public:
  explicit BatchNorm(const Layer& layer)
      : layer_(layer), channels_(layer.out.channels), plane_(layer.out.height * layer.out.width) {}

  void forward(const ReferencePass& pass, std::span<const Values* const> in, Values& out) override {
    const Values& x = *in[0];
    statistics_ = pass.mode == Mode::kTraining ? measured(pass, x) : running(pass);
    const auto of = [&](const ParameterRange& range, std::int64_t c) {
      return pass.parameters[static_cast<std::size_t>(range.offset + c)];
    };
    for_each(pass.samples, [&](std::size_t i, std::int64_t c) {
      out[i] = is_affine() ? of(layer_.weight, c) * normal(x[i], c) + of(layer_.bias, c) : normal(x[i], c);
    });
    pass.keep(out);
  }

  void backward(const ReferencePass& pass, std::span<const Values* const> in, const Values&,
                const Values& out_difference, std::span<Values> in_differences) override {
    const Values& x = *in[0];
    const auto gradient = [&](const ParameterRange& range) {
      return pass.gradient.subspan(range.offset, range.size);
    };
    Values sums(static_cast<std::size_t>(2 * channels_), 0.0);
    const std::span<double> gamma =
        is_affine() ? gradient(layer_.weight) : std::span(sums).first(static_cast<std::size_t>(channels_));
    const std::span<double> beta =
        is_affine() ? gradient(layer_.bias) : std::span(sums).last(static_cast<std::size_t>(channels_));
    for_each(pass.samples, [&](std::size_t i, std::int64_t c) {
      gamma[c] += out_difference[i] * normal(x[i], c);
      beta[c] += out_difference[i];
    });
    const auto m = static_cast<double>(pass.samples * plane_);
    for_each(pass.samples, [&](std::size_t i, std::int64_t c) {
      const double centred = out_difference[i] - beta[c] / m - normal(x[i], c) * gamma[c] / m;
      const double scale = is_affine() ? pass.parameters[layer_.weight.offset + c] : 1.0;
      in_differences[0][i] = scale / deviation(c) * centred;
    });
    for (std::int64_t c = 0; c < channels_; ++c) {
      gradient(layer_.running_mean)[c] = statistics_[c].mean;
      gradient(layer_.running_variance)[c] = statistics_[c].variance * m / (m - 1.0);  // Bessel
    }
    if (layer_.running_weight.size > 0) gradient(layer_.running_weight)[0] = 1.0;
  }

 private:
  struct Statistics {
    double mean = 0.0;
    double variance = 0.0;
  };

  // Calls use(index, channel) for every value.
  template <typename Use>
  void for_each(std::int64_t samples, const Use& use) const {
    std::size_t i = 0;
    for (std::int64_t n = 0; n < samples; ++n) {
      for (std::int64_t c = 0; c < channels_; ++c) {
        for (std::int64_t place = 0; place < plane_; ++place) use(i++, c);
      }
    }
  }

  std::vector<Statistics> measured(const ReferencePass& pass, const Values& x) const {
    const auto m = static_cast<double>(pass.samples * plane_);
    std::vector<Statistics> of(static_cast<std::size_t>(channels_));
    for_each(pass.samples, [&](std::size_t i, std::int64_t c) { of[c].mean += x[i] / m; });
    for_each(pass.samples, [&](std::size_t i, std::int64_t c) {
      of[c].variance += (x[i] - of[c].mean) * (x[i] - of[c].mean) / m;
    });
    return of;
  }

  std::vector<Statistics> running(const ReferencePass& pass) const {
    double share = 1.0;
    if (layer_.running_weight.size > 0) {
      const double weight = pass.parameters[layer_.running_weight.offset];
      share = weight == 0.0 ? 0.0 : 1.0 / weight;
    }
    std::vector<Statistics> of;
    for (std::int64_t c = 0; c < channels_; ++c) {
      of.push_back({pass.parameters[layer_.running_mean.offset + c] * share,
                    pass.parameters[layer_.running_variance.offset + c] * share});
    }
    return of;
  }

  bool is_affine() const { return layer_.weight.size > 0; }
  double deviation(std::int64_t c) const { return std::sqrt(statistics_[c].variance + layer_.epsilon); }
  double normal(double x, std::int64_t c) const { return (x - statistics_[c].mean) / deviation(c); }

  const Layer& layer_;
  const std::int64_t channels_;
  const std::int64_t plane_;            // places of a channel
  std::vector<Statistics> statistics_;  // of the last forward pass, by channel
};

}  // namespace

std::unique_ptr<ReferenceLayer> make_reference(const Layer& layer, std::size_t) {
  return std::make_unique<BatchNorm>(layer);
}

}  // namespace paceline::layers::batch_norm
