// Forward through the layers, the loss, and back, a mini-batch at a time; an evaluation mostly takes one sample
// after another. What each layer does is in layers/<kind>/reference.cc. Compare the gradient formulas with
// any text book; nothing here is done for speed except that the innermost loops run along rows.
#include "worker/model/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "common/assert.h"
#include "worker/model/layers/reference_layer.h"
#include "worker/model/loss.h"
#include "worker/model/reference_passes.h"

namespace paceline {
namespace {

// By way of float, as a back end in bfloat16 comes to it. NaN and infinity stay.
double nearest_bfloat16(double value) {
  const auto single = static_cast<float>(value);
  if (!std::isfinite(single)) return single;
  const auto bits = std::bit_cast<std::uint32_t>(single);
  const std::uint32_t up = 0x7FFF + (bits >> 16 & 1);  // ties to even
  return std::bit_cast<float>((bits + up) & 0xFFFF0000U);
}

void keep_as_they_are(std::span<double>) {}
void keep_bfloat16(std::span<double> values) {
  for (double& value : values) value = nearest_bfloat16(value);
}

class ReferenceBackend : public NetworkBackend {
 public:
  ReferenceBackend(NetworkSpec network, std::int64_t batch_size, std::uint64_t seed, Activations activations,
                   NormGroup* norm_group)
      : network_(std::move(network)),
        batch_size_(batch_size),
        seed_(seed),
        norm_group_(norm_group),
        keep_(activations == Activations::kDouble ? keep_as_they_are : keep_bfloat16),
        parameters_(network_.layout.size()),
        gradient_(network_.layout.size()),
        passes_(network_, whole_network(network_), keep_) {}

  Result<Metric> gradient(std::span<const float> parameters, const Batch& batch, std::span<float> gradient,
                          const FinalFrom& final_from) override {
    PACELINE_RETURN_IF_ERROR(check_batch(network_, batch, batch_size_, keys_needed(network_)));
    PACELINE_RETURN_IF_ERROR(check_norms(network_, batch.size()));
    PACELINE_ASSERT(gradient.size() == gradient_.size(), std::to_string(gradient.size()));
    set_parameters(parameters);
    std::fill(gradient_.begin(), gradient_.end(), 0.0);
    std::int64_t hits = 0;
    ReferencePass pass = pass_of(Mode::kTraining, batch);
    pass.gradient = gradient_;
    pass.norm_group = norm_group_;
    pass.hits = &hits;
    forward(pass);
    ReferencePasses::Differences differences(passes_.values().size());
    const Metric total = network_.has_losses() ? loss_of_layers(batch.size(), hits, &differences)
                                               : loss_of_logits(batch, differences.back());
    passes_.backward(pass, differences, [&](const Layer& layer) {
      const ParameterRange own = layer.tensors();
      if (own.size == 0) return;
      round_to(gradient, own);
      final_from(own.offset);
    });
    if (norm_group_ != nullptr) PACELINE_RETURN_IF_ERROR(norm_group_->status());
    return total;
  }

  Result<Metric> evaluate(std::span<const float> parameters, const Batch& batch) override {
    PACELINE_RETURN_IF_ERROR(check_batch(network_, batch, batch_size_, DropoutKeys::kIgnored));
    set_parameters(parameters);
    // One sample after another needs the least memory; but a mean over the labels that count is over all of them.
    const std::int64_t together = divides_by_labels_that_count() ? batch.size() : 1;
    Metric total;
    for (std::int64_t first = 0; first < batch.size(); first += together) {
      const Batch part{batch.images.subspan(first * network_.input.size(), together * network_.input.size()),
                       batch.labels.subspan(first, together),
                       {},
                       {}};
      std::int64_t hits = 0;
      ReferencePass pass = pass_of(Mode::kEvaluation, part);
      pass.hits = &hits;
      forward(pass);
      add(total, network_.has_losses() ? loss_of_layers(together, hits, nullptr) : loss(part, {}));
    }
    return total;
  }

 private:
  bool divides_by_labels_that_count() const {
    return std::any_of(network_.layers.begin(), network_.layers.end(), [](const Layer& layer) {
      return layer.loss.is_one && layer.loss.divisor == LossDivisor::kValid;
    });
  }

  static void add(Metric& total, const Metric& one) {
    total.loss_sum += one.loss_sum;
    total.correct += one.correct;
    total.samples += one.samples;
  }

  void set_parameters(std::span<const float> parameters) {
    PACELINE_ASSERT(parameters.size() == parameters_.size(), std::to_string(parameters.size()));
    std::copy(parameters.begin(), parameters.end(), parameters_.begin());
    for (const Layer& layer : network_.layers) {
      if (!layer.mixes_samples())
        keep_(std::span(parameters_).subspan(layer.weight.offset, layer.weight.size));
    }
  }

  ReferencePass pass_of(Mode mode, const Batch& batch) const {
    return {mode, batch.size(), batch, seed_, parameters_, {}, keep_};
  }

  const Values& logits() const { return passes_.values().back(); }

  void forward(const ReferencePass& pass) {
    Values& images = passes_.values()[0];
    images.assign(pass.batch.images.begin(), pass.batch.images.end());
    keep_(images);
    passes_.forward(pass);
  }

  // Fills `difference`.
  Metric loss_of_logits(const Batch& batch, Values& difference) const {
    difference.resize(logits().size());
    const Metric total = loss(batch, difference);
    // The loss of one sample has weight 1; its share of the mean is 1 / N.
    for (double& d : difference) d /= static_cast<double>(batch.size());
    keep_(difference);
    return total;
  }

  // Of what the losses have given. Fills the differences of these, where they are wanted.
  Metric loss_of_layers(std::int64_t samples, std::int64_t hits,
                        ReferencePasses::Differences* differences) const {
    Metric total;
    total.samples = samples;
    total.correct = hits;
    for (std::size_t i = 0; i < network_.layers.size(); ++i) {
      const LossConfig& one = network_.layers[i].loss;
      if (!one.is_one) continue;
      const Values& losses = passes_.values()[i + 1];
      for (const double each : losses) total.loss_sum += one.weight * each;
      if (differences == nullptr) continue;
      (*differences)[i + 1].assign(losses.size(), one.weight / static_cast<double>(samples));
    }
    return total;
  }

  // Sample after sample; `difference`, where it is wanted, gets that of each sample's loss.
  Metric loss(const Batch& batch, std::span<double> difference) const {
    const std::int64_t classes = network_.classes;
    Metric total;
    for (std::int64_t n = 0; n < batch.size(); ++n) {
      const auto of_sample = std::span<const double>(logits()).subspan(n * classes, classes);
      add(total, softmax_cross_entropy<double>(
                     of_sample, batch.labels.subspan(n, 1), classes,
                     difference.empty() ? difference : difference.subspan(n * classes, classes),
                     difference.empty() ? 0.0 : network_.label_smoothing));
    }
    return total;
  }

  void round_to(std::span<float> gradient, const ParameterRange& range) const {
    std::transform(gradient_.begin() + range.offset, gradient_.begin() + range.offset + range.size,
                   gradient.begin() + range.offset, [](double value) { return static_cast<float>(value); });
  }

  NetworkSpec network_;
  std::int64_t batch_size_;
  std::uint64_t seed_;
  NormGroup* norm_group_;
  void (*keep_)(std::span<double>);  // as activations are kept
  Values parameters_;
  Values gradient_;
  ReferencePasses passes_;
};

}  // namespace

Result<std::unique_ptr<NetworkBackend>> make_reference_backend(NetworkSpec network, std::int64_t batch_size,
                                                               std::uint64_t seed, Activations activations,
                                                               NormGroup* norm_group) {
  return std::unique_ptr<NetworkBackend>(
      std::make_unique<ReferenceBackend>(std::move(network), batch_size, seed, activations, norm_group));
}

}  // namespace paceline
