#include "worker/pipeline/measured_norms.h"

#include <algorithm>

namespace paceline {
namespace {

double places_of(const Layer& layer) { return static_cast<double>(layer.in.height * layer.in.width); }

}  // namespace

MeasuredNorms::MeasuredNorms(const NetworkSpec& network, const StageSpec& stage, std::int64_t samples,
                             std::int64_t divisor)
    : begin_(stage.parameters.begin),
      samples_(static_cast<double>(samples)),
      scale_(samples_ / static_cast<double>(divisor)) {
  for (std::size_t i = stage.first; i < stage.last; ++i) {
    const Layer& layer = network.layers[i];
    if (!layer.mixes_samples()) continue;
    norms_.push_back({&layer, std::vector<Channel>(static_cast<std::size_t>(layer.running_mean.size))});
  }
}

std::span<const float> MeasuredNorms::in(std::span<const float> gradient, const ParameterRange& range) const {
  return gradient.subspan(static_cast<std::size_t>(range.offset - begin_),
                          static_cast<std::size_t>(range.size));
}

void MeasuredNorms::begin() {
  for (Norm& norm : norms_) {
    std::fill(norm.channels.begin(), norm.channels.end(), Channel{});
    norm.weight = 0.0;
  }
}

void MeasuredNorms::add(std::int64_t samples, std::span<const float> gradient) {
  const auto rows = static_cast<double>(samples);
  for (Norm& norm : norms_) {
    const double n = rows * places_of(*norm.layer);
    const std::span<const float> means = in(gradient, norm.layer->running_mean);
    const std::span<const float> variances = in(gradient, norm.layer->running_variance);
    for (std::size_t c = 0; c < norm.channels.size(); ++c) {
      const double mean = means[c];
      norm.channels[c].sum += n * mean;
      norm.channels[c].squares += (n - 1.0) * variances[c] + n * mean * mean;
    }
    if (norm.layer->running_weight.size > 0)
      norm.weight += rows * in(gradient, norm.layer->running_weight)[0];
  }
}

void MeasuredNorms::write(std::span<float> gradient) const {
  const auto place = [&](const ParameterRange& range, std::size_t c) -> float& {
    return gradient[static_cast<std::size_t>(range.offset - begin_) + c];
  };
  for (const Norm& norm : norms_) {
    const double n = samples_ * places_of(*norm.layer);
    for (std::size_t c = 0; c < norm.channels.size(); ++c) {
      const Channel& channel = norm.channels[c];
      const double mean = channel.sum / n;
      const double variance = std::max(0.0, (channel.squares - n * mean * mean) / (n - 1.0));
      place(norm.layer->running_mean, c) = static_cast<float>(scale_ * mean);
      place(norm.layer->running_variance, c) = static_cast<float>(scale_ * variance);
    }
    if (norm.layer->running_weight.size > 0) {
      place(norm.layer->running_weight, 0) = static_cast<float>(scale_ * norm.weight / samples_);
    }
  }
}

}  // namespace paceline
