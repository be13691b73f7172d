// With m values of a channel, x those of the mini-batch (all samples, all places) or, in an evaluation, with the
// running mean and variance in place of these:
//
//   mean = sum x / m      variance = sum (x - mean)^2 / m      z = (x - mean) / sqrt(variance + epsilon)
//   out = gamma z + beta
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
      out[i] = of(layer_.weight, c) * normal(x[i], c) + of(layer_.bias, c);
    });
    pass.keep(out);
  }

  void backward(const ReferencePass& pass, std::span<const Values* const> in, const Values&,
                const Values& out_difference, std::span<Values> in_differences) override {
    const Values& x = *in[0];
    const auto gradient = [&](const ParameterRange& range) {
      return pass.gradient.subspan(range.offset, range.size);
    };
    const std::span<double> gamma = gradient(layer_.weight);
    const std::span<double> beta = gradient(layer_.bias);
    for_each(pass.samples, [&](std::size_t i, std::int64_t c) {
      gamma[c] += out_difference[i] * normal(x[i], c);
      beta[c] += out_difference[i];
    });
    const auto m = static_cast<double>(pass.samples * plane_);
    for_each(pass.samples, [&](std::size_t i, std::int64_t c) {
      const double centred = out_difference[i] - beta[c] / m - normal(x[i], c) * gamma[c] / m;
      in_differences[0][i] = pass.parameters[layer_.weight.offset + c] / deviation(c) * centred;
    });
    for (std::int64_t c = 0; c < channels_; ++c) {
      gradient(layer_.running_mean)[c] = statistics_[c].mean;
      gradient(layer_.running_variance)[c] = statistics_[c].variance * m / (m - 1.0);  // Bessel
    }
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
    std::vector<Statistics> of;
    for (std::int64_t c = 0; c < channels_; ++c) {
      of.push_back({pass.parameters[layer_.running_mean.offset + c],
                    pass.parameters[layer_.running_variance.offset + c]});
    }
    return of;
  }

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
