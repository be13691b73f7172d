// With m values of a channel, x those of the mini-batch (all samples, all places) or, in an evaluation, with the
// running mean and variance in place of these (debiased: divided by their running weight, or 0 where that is 0):
//
//   mean = sum x / m      variance = sum (x - mean)^2 / m      z = (x - mean) / sqrt(variance + epsilon)
//   out = gamma z + beta, or z
//   d(gamma) = sum d(out) z      d(beta) = sum d(out)
//   d(x) = gamma / sqrt(variance + epsilon) (d(out) - d(beta) / m - z d(gamma) / m)
//
// Over a group of workers m, the sums and these two are the group's (worker/model/norm_group.h).
#include <cmath>

#include "worker/model/layers/reference_layer.h"

namespace paceline::layers::batch_norm {
namespace {

class BatchNorm final : public ReferenceLayer {
 public:
  BatchNorm(const Layer& layer, std::size_t index)
      : layer_(layer),
        index_(index),
        channels_(layer.out.channels),
        plane_(layer.out.height * layer.out.width) {}

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
    const NormCorrection owed = correction(pass, beta, gamma);
    for_each(pass.samples, [&](std::size_t i, std::int64_t c) {
      const double centred = out_difference[i] - owed.first[c] - normal(x[i], c) * owed.second[c];
      const double scale = is_affine() ? pass.parameters[layer_.weight.offset + c] : 1.0;
      in_differences[0][i] = scale / deviation(c) * centred;
    });
    const auto m = static_cast<double>(values_);
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

  std::vector<Statistics> measured(const ReferencePass& pass, const Values& x) {
    values_ = pass.samples * plane_;
    const auto m = static_cast<double>(values_);
    std::vector<Statistics> of(static_cast<std::size_t>(channels_));
    for_each(pass.samples, [&](std::size_t i, std::int64_t c) { of[c].mean += x[i] / m; });
    for_each(pass.samples, [&](std::size_t i, std::int64_t c) {
      of[c].variance += (x[i] - of[c].mean) * (x[i] - of[c].mean) / m;
    });
    if (pass.norm_group == nullptr) return of;
    NormPart part{pass.samples, {}, {}};
    for (const Statistics& own : of) {
      part.first.push_back(static_cast<float>(own.mean));
      part.second.push_back(static_cast<float>(own.variance * m));
    }
    const NormStatistics all =
        combined(pass.norm_group->exchange(index_, NormPass::kForward, std::move(part)), plane_);
    values_ = all.values;
    for (std::size_t c = 0; c < of.size(); ++c) of[c] = {all.mean[c], all.variance[c]};
    return of;
  }

  // What is taken from each d(out) since the statistics depend on its input, too.
  NormCorrection correction(const ReferencePass& pass, std::span<const double> beta,
                            std::span<const double> gamma) const {
    NormCorrection owed;
    if (pass.norm_group != nullptr) {
      const NormPart part{pass.samples, {beta.begin(), beta.end()}, {gamma.begin(), gamma.end()}};
      return correction_of(pass.norm_group->exchange(index_, NormPass::kBackward, part), pass.samples,
                           plane_);
    }
    for (std::size_t c = 0; c < beta.size(); ++c) {
      owed.first.push_back(beta[c] / static_cast<double>(values_));
      owed.second.push_back(gamma[c] / static_cast<double>(values_));
    }
    return owed;
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
  const std::size_t index_;
  const std::int64_t channels_;
  const std::int64_t plane_;            // places of a channel
  std::vector<Statistics> statistics_;  // of the last forward pass, by channel
  std::int64_t values_ = 0;             // that they are of, of a channel
};

}  // namespace

std::unique_ptr<ReferenceLayer> make_reference(const Layer& layer, std::size_t index) {
  return std::make_unique<BatchNorm>(layer, index);
}

}  // namespace paceline::layers::batch_norm
