// The oneDNN back end as the worker sees it: points the program (onednn_plan.h) at the caller's vectors,
// runs it, and computes the loss between the two passes. A mini-batch smaller than the built size is filled
// up with zero images whose loss gradient is zero: they add nothing to any parameter's gradient. Where layers mix
// samples (batch norm) they would; a training step then has a program of its own size.
#include "worker/model/onednn.h"

#include <omp.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/assert.h"
#include "worker/model/loss.h"
#include "worker/model/onednn_plan.h"

namespace paceline {
namespace {

using onednn::floats_of;
using onednn::Plan;
using onednn::When;
using Pass = onednn::Program::Pass;

Status library_failed(const dnnl::error& e) { return internal_error(std::string("oneDNN: ") + e.what()); }

class OnednnBackend : public NetworkBackend {
 public:
  // May throw dnnl::error.
  OnednnBackend(NetworkSpec network, std::int64_t batch_size, std::uint64_t seed, NormGroup* norm_group,
                onednn::Type products)
      : network_(std::move(network)),
        batch_size_(batch_size),
        seed_(seed),
        norm_group_(norm_group),
        products_(products),
        whole_(network_, batch_size, norm_group, products),
        filled_images_(batch_size * network_.input.size()) {}

  Result<Metric> gradient(std::span<const float> parameters, const Batch& batch, std::span<float> gradient,
                          const FinalFrom& final_from) override {
    PACELINE_RETURN_IF_ERROR(check_batch(network_, batch, batch_size_, keys_needed(network_)));
    PACELINE_RETURN_IF_ERROR(check_norms(network_, batch.size()));
    check_length(gradient.size());
    try {
      Plan& plan = plan_for_training(batch.size());
      plan.draw_masks(seed_, batch);
      forward(plan, parameters, batch, When::kTraining);
      const Metric metric = network_.has_losses() ? loss_of_layers(plan, batch) : loss(plan, batch);
      plan.program().point_gradient(gradient.data());
      plan.program().run(Pass::kBackward, When::kTraining, final_from);
      if (norm_group_ != nullptr) PACELINE_RETURN_IF_ERROR(norm_group_->status());
      return metric;
    } catch (const dnnl::error& e) {
      return library_failed(e);
    }
  }

  Result<Metric> evaluate(std::span<const float> parameters, const Batch& batch) override {
    PACELINE_RETURN_IF_ERROR(check_batch(network_, batch, batch_size_, DropoutKeys::kIgnored));
    try {
      forward(whole_, parameters, batch, When::kEvaluation);
      if (network_.has_losses()) return loss_of_layers(whole_, batch);
      return softmax_cross_entropy<float>(logits(whole_, batch), batch.labels, network_.classes, {});
    } catch (const dnnl::error& e) {
      return library_failed(e);
    }
  }

 private:
  void check_length(std::size_t floats) const {
    PACELINE_ASSERT(static_cast<std::int64_t>(floats) == network_.layout.size(),
                    std::to_string(floats) + " floats, expected " + std::to_string(network_.layout.size()));
  }

  Plan& plan_for_training(std::int64_t samples) {
    if (samples == batch_size_ || !network_.mixes_samples()) return whole_;
    if (!smaller_ || smaller_->samples() != samples) {
      smaller_.reset();  // before the next one takes its memory
      smaller_.emplace(network_, samples, norm_group_, products_);
    }
    return *smaller_;
  }

  void forward(Plan& plan, std::span<const float> parameters, const Batch& batch, When when) {
    check_length(parameters.size());
    plan.program().point_parameters(parameters.data());
    float* images = const_cast<float*>(batch.images.data());  // only read
    if (batch.size() < plan.samples()) {
      const auto end = std::copy(batch.images.begin(), batch.images.end(), filled_images_.begin());
      std::fill(end, filled_images_.end(), 0.0F);
      images = filled_images_.data();
    }
    plan.images().set_data_handle(images);
    plan.current() = {&batch, 0};
    plan.program().run(Pass::kForward, when, {});
  }

  std::span<const float> logits(const Plan& plan, const Batch& batch) const {
    return {floats_of(plan.logits()), static_cast<std::size_t>(batch.size() * network_.classes)};
  }

  // Of what the losses have given; fills their differences.
  static Metric loss_of_layers(Plan& plan, const Batch& batch) {
    Metric metric;
    metric.samples = batch.size();
    metric.correct = plan.current().hits;
    for (const Plan::LossEnd& end : plan.losses()) {
      const double weight = end.layer->loss.weight;
      const auto share = static_cast<float>(weight / static_cast<double>(batch.size()));
      for (std::int64_t n = 0; n < plan.samples(); ++n) {
        if (n < batch.size()) metric.loss_sum += weight * static_cast<double>(floats_of(end.losses)[n]);
        floats_of(end.difference)[n] = n < batch.size() ? share : 0.0F;
      }
    }
    return metric;
  }

  Metric loss(const Plan& plan, const Batch& batch) {
    const std::span<float> difference(floats_of(plan.logit_difference()),
                                      static_cast<std::size_t>(plan.samples() * network_.classes));
    const std::size_t used = logits(plan, batch).size();
    std::fill(difference.begin() + used, difference.end(), 0.0F);
    return softmax_cross_entropy<float>(logits(plan, batch), batch.labels, network_.classes,
                                        difference.first(used), network_.label_smoothing);
  }

  NetworkSpec network_;
  std::int64_t batch_size_;
  std::uint64_t seed_;
  NormGroup* norm_group_;
  onednn::Type products_;
  Plan whole_;  // of batch_size_ samples
  std::optional<Plan> smaller_;
  std::vector<float> filled_images_;
};

}  // namespace

Result<std::unique_ptr<NetworkBackend>> make_onednn_backend(NetworkSpec network, std::int64_t batch_size,
                                                            std::uint64_t seed, NormGroup* norm_group,
                                                            Precision precision) {
  const onednn::Type products = precision == Precision::kBf16 ? onednn::Type::bf16 : onednn::Type::f32;
  omp_set_num_threads(1);
  try {
    return std::unique_ptr<NetworkBackend>(
        std::make_unique<OnednnBackend>(std::move(network), batch_size, seed, norm_group, products));
  } catch (const dnnl::error& e) {
    return library_failed(e);
  }
}

}  // namespace paceline
