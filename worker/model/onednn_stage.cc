// A stage in oneDNN's primitives (onednn_plan.h). A micro-batch smaller than the built size is filled up with zeros
// that nothing comes back of, or has a plan of its own, made for its size, in training (computes_apart()).
#include <omp.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/network/stage_plan.h"
#include "common/params/vector_ops.h"
#include "worker/model/loss.h"
#include "worker/model/onednn_plan.h"
#include "worker/model/stage_backend.h"

namespace paceline {
namespace {

using onednn::floats_of;
using onednn::memory;
using onednn::Plan;
using onednn::When;
using Direction = onednn::Program::Pass;

Status stage_failed(const dnnl::error& e) { return internal_error(std::string("oneDNN: ") + e.what()); }

std::span<float> all_of(const memory& whole) {
  return {floats_of(whole), whole.get_desc().get_size() / sizeof(float)};
}

class OnednnStage final : public StageBackend {
 public:
  // May throw dnnl::error.
  OnednnStage(NetworkSpec network, const StageSpec& stage, std::int64_t samples, std::uint64_t seed)
      : network_(std::move(network)), stage_(stage), seed_(seed), plan_(network_, stage_, samples) {
    if (stage_.first == 0) filled_images_.resize(static_cast<std::size_t>(samples * network_.input.size()));
  }

  Status forward(const StagePass& pass, std::span<float> out) override {
    return forward(pass, out, When::kTraining);
  }
  Status evaluate(const StagePass& pass, std::span<float> out) override {
    return forward(pass, out, When::kEvaluation);
  }
  Status forward(const StagePass& pass, std::span<float> out, When when) {
    try {
      current_ = when == When::kTraining ? &plan_for_training(pass.batch.size()) : &plan_;
      Plan& plan = *current_;
      if (when == When::kTraining) plan.draw_masks(seed_, pass.batch);
      plan.program().point_parameters(pass.parameters.data());
      if (stage_.first == 0) {
        fill(pass.in, filled_images_);
        plan.images().set_data_handle(filled_images_.data());
      } else {
        take_rows(pass.in, plan.arrived(), pass.batch.size());
      }
      plan.program().run(Direction::kForward, when, {});
      if (!out.empty()) give_rows(plan.going_on(), out, pass.batch.size());
      return Status::ok();
    } catch (const dnnl::error& e) {
      return stage_failed(e);
    }
  }

  Result<Metric> loss(const Batch& batch, std::int64_t divisor) override {
    const auto used = static_cast<std::size_t>(batch.size() * network_.classes);
    const std::span<float> difference = all_of(current_->logit_difference());
    std::fill(difference.begin() + static_cast<std::ptrdiff_t>(used), difference.end(), 0.0F);
    const Metric metric =
        softmax_cross_entropy<float>(all_of(current_->logits()).first(used), batch.labels, network_.classes,
                                     difference.first(used), network_.label_smoothing);
    // That was of the mean of these samples.
    scale(difference.first(used), static_cast<float>(batch.size()) / static_cast<float>(divisor));
    return metric;
  }

  Status backward(const StagePass& pass, std::span<const float> out_difference,
                  std::span<float> in_difference, std::span<float> gradient) override {
    try {
      Plan& plan = *current_;
      take_rows(out_difference, plan.returned_differences(), pass.batch.size());
      plan.program().point_gradient(gradient.data());
      plan.program().run(Direction::kBackward, When::kTraining, [](std::int64_t) {});
      if (stage_.first > 0) give_rows(plan.going_back(), in_difference, pass.batch.size());
      return Status::ok();
    } catch (const dnnl::error& e) {
      return stage_failed(e);
    }
  }

  std::int64_t activation_bytes() const override {
    return plan_.activation_bytes() + (smaller_ ? smaller_->activation_bytes() : 0) +
           static_cast<std::int64_t>(filled_images_.size() * sizeof(float));
  }

 private:
  static void fill(std::span<const float> rows, std::span<float> whole) {
    const auto end = std::copy(rows.begin(), rows.end(), whole.begin());
    std::fill(end, whole.end(), 0.0F);
  }
  // From one value after the other into the memory of each, and back.
  void take_rows(std::span<const float> rows, const std::vector<memory>& values, std::int64_t samples) const {
    for (const memory& value : values) {
      const std::size_t floats = rows_of(value, samples);
      fill(rows.first(floats), all_of(value));
      rows = rows.subspan(floats);
    }
  }
  void give_rows(const std::vector<memory>& values, std::span<float> rows, std::int64_t samples) const {
    for (const memory& value : values) {
      const std::size_t floats = rows_of(value, samples);
      std::copy_n(floats_of(value), floats, rows.begin());
      rows = rows.subspan(floats);
    }
  }
  static std::size_t rows_of(const memory& value, std::int64_t samples) {
    return all_of(value).size() / static_cast<std::size_t>(onednn::dims_of(value.get_desc())[0]) *
           static_cast<std::size_t>(samples);
  }

  // Of two sizes at most: micro-batches differ by a sample.
  Plan& plan_for_training(std::int64_t samples) {
    if (!computes_apart(network_, stage_, plan_.samples(), samples)) return plan_;
    if (!smaller_ || smaller_->samples() != samples) smaller_.emplace(network_, stage_, samples);
    return *smaller_;
  }

  const NetworkSpec network_;
  const StageSpec stage_;
  const std::uint64_t seed_;
  Plan plan_;
  std::optional<Plan> smaller_;
  Plan* current_ = &plan_;  // of the last forward pass
  std::vector<float> filled_images_;
};

}  // namespace

Result<std::unique_ptr<StageBackend>> make_onednn_stage(NetworkSpec network, const StageSpec& stage,
                                                        std::int64_t samples, std::uint64_t seed) {
  omp_set_num_threads(1);
  try {
    return std::unique_ptr<StageBackend>(
        std::make_unique<OnednnStage>(std::move(network), stage, samples, seed));
  } catch (const dnnl::error& e) {
    return stage_failed(e);
  }
}

}  // namespace paceline
