// A stage in plain loops (reference.h): values travel as float32, all else is in double.
#include <algorithm>
#include <utility>
#include <vector>

#include "common/assert.h"
#include "worker/model/loss.h"
#include "worker/model/reference_passes.h"
#include "worker/model/stage_backend.h"

namespace paceline {
namespace {

class ReferenceStage final : public StageBackend {
 public:
  ReferenceStage(NetworkSpec network, const StageSpec& stage, std::uint64_t seed)
      : network_(std::move(network)),
        stage_(stage),
        seed_(seed),
        back_in_(only_trained(network_, stage.inputs)),
        back_out_(only_trained(network_, stage.outputs)),
        passes_(network_, stage_, [](std::span<double>) {}) {}

  Status forward(const StagePass& pass, std::span<float> out) override {
    return forward(pass, out, Mode::kTraining);
  }
  Status evaluate(const StagePass& pass, std::span<float> out) override {
    return forward(pass, out, Mode::kEvaluation);
  }
  Status forward(const StagePass& pass, std::span<float> out, Mode mode) {
    parameters_.assign(pass.parameters.begin(), pass.parameters.end());
    samples_ = pass.batch.size();
    const float* from = pass.in.data();
    for (const std::size_t value : stage_.inputs) {
      const std::int64_t floats = samples_ * network_.shape_of(value).size();
      passes_.values()[value].assign(from, from + floats);
      from += floats;
    }
    passes_.forward(pass_of(mode, pass.batch, {}));
    if (out.empty()) return Status::ok();
    auto to = out.begin();
    for (const std::size_t value : stage_.outputs) to = rounded(passes_.values()[value], to);
    return Status::ok();
  }

  Result<Metric> loss(const Batch& batch, std::int64_t divisor) override {
    const Values& logits = passes_.values().back();
    logit_difference_.resize(logits.size());
    const std::int64_t classes = network_.classes;
    Metric total;
    for (std::int64_t n = 0; n < batch.size(); ++n) {
      const auto of_sample = [&](auto& values) { return std::span(values).subspan(n * classes, classes); };
      const Metric one =
          softmax_cross_entropy<double>(of_sample(logits), batch.labels.subspan(n, 1), classes,
                                        of_sample(logit_difference_), network_.label_smoothing);
      total.loss_sum += one.loss_sum;
      total.correct += one.correct;
      total.samples += one.samples;
    }
    for (double& difference : logit_difference_) difference /= static_cast<double>(divisor);
    return total;
  }

  Status backward(const StagePass& pass, std::span<const float> out_difference,
                  std::span<float> in_difference, std::span<float> gradient) override {
    ReferencePasses::Differences differences(passes_.values().size());
    if (stage_.outputs.empty()) differences.back() = logit_difference_;
    const float* from = out_difference.data();
    for (const std::size_t value : back_out_) {
      const std::int64_t floats = samples_ * network_.shape_of(value).size();
      differences[value].assign(from, from + floats);
      from += floats;
    }
    gradient_.assign(gradient.size(), 0.0);
    passes_.backward(pass_of(Mode::kTraining, pass.batch, gradient_), differences, [](const Layer&) {});
    rounded(gradient_, gradient.begin());
    auto to = in_difference.begin();
    if (stage_.first == 0) return Status::ok();
    for (const std::size_t value : back_in_) to = rounded(differences[value], to);
    return Status::ok();
  }

  std::int64_t activation_bytes() const override {
    std::size_t values = 0;
    for (const Values& each : passes_.values()) values += each.size();
    return static_cast<std::int64_t>(values * sizeof(double));
  }

 private:
  using Iterator = std::span<float>::iterator;
  static Iterator rounded(const Values& values, Iterator to) {
    return std::transform(values.begin(), values.end(), to,
                          [](double value) { return static_cast<float>(value); });
  }

  ReferencePass pass_of(Mode mode, const Batch& batch, std::span<double> gradient) const {
    return {mode, batch.size(), batch, seed_, parameters_, gradient, [](std::span<double>) {}};
  }

  const NetworkSpec network_;
  const StageSpec stage_;
  const std::uint64_t seed_;
  const std::vector<std::size_t> back_in_;   // of what comes in, what something goes back of
  const std::vector<std::size_t> back_out_;  // of what goes on, what something comes back of
  ReferencePasses passes_;
  std::int64_t samples_ = 0;
  Values parameters_;
  Values gradient_;
  Values logit_difference_;
};

}  // namespace

std::unique_ptr<StageBackend> make_reference_stage(NetworkSpec network, const StageSpec& stage,
                                                   std::uint64_t seed) {
  return std::make_unique<ReferenceStage>(std::move(network), stage, seed);
}

}  // namespace paceline
