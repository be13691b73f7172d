#include "worker/pipeline/stage_evaluation.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "worker/model/stage_backend.h"

namespace paceline {
namespace {

// An evaluation has the plain loss.
NetworkSpec without_smoothing(NetworkSpec network) {
  network.label_smoothing = 0.0;
  return network;
}

class StageEvaluation final : public NetworkBackend {
 public:
  StageEvaluation(Backend kind, const NetworkSpec& network, const std::vector<StageSpec>& stages,
                  std::int64_t samples, std::int64_t rows, bool keeps)
      : kind_(kind),
        network_(without_smoothing(network)),
        stages_(stages),
        samples_(samples),
        rows_(std::min(rows, samples)),
        keeps_(keeps) {}

  Result<Metric> gradient(std::span<const float>, const Batch&, std::span<float>, const FinalFrom&) override {
    return failed_precondition("stages in one place make no gradients");
  }

  Result<Metric> evaluate(std::span<const float> parameters, const Batch& batch) override {
    PACELINE_RETURN_IF_ERROR(check_batch(network_, batch, samples_, DropoutKeys::kIgnored));
    std::span<const float> in = batch.images;
    std::vector<float> passing;
    Metric metric;
    for (const StageSpec& stage : stages_) {
      std::vector<float> out(static_cast<std::size_t>(floats_of(network_, stage.outputs) * batch.size()));
      PACELINE_ASSIGN_OR_RETURN(metric, through(stage, parameters, batch, in, out));
      passing = std::move(out);
      in = passing;
    }
    return metric;
  }

 private:
  Result<Metric> through(const StageSpec& stage, std::span<const float> parameters, const Batch& batch,
                         std::span<const float> in, std::span<float> out) {
    std::unique_ptr<StageBackend>& backend = backends_[keeps_ ? stage.first : 0];
    if (!keeps_) backend.reset();
    // Without dropout no seed is drawn with.
    if (backend == nullptr) {
      PACELINE_ASSIGN_OR_RETURN(backend, make_stage_backend(kind_, network_, stage, rows_, 0));
    }
    const auto own = parameters.subspan(static_cast<std::size_t>(stage.parameters.begin),
                                        static_cast<std::size_t>(stage.parameters.size()));
    const auto floats_in = static_cast<std::size_t>(floats_of(network_, stage.inputs));
    const auto floats_out = static_cast<std::size_t>(floats_of(network_, stage.outputs));
    Metric metric;
    for (std::int64_t first = 0; first < batch.size(); first += rows_) {
      const auto begin = static_cast<std::size_t>(first);
      const auto rows = static_cast<std::size_t>(std::min(rows_, batch.size() - first));
      Batch part;
      part.labels = batch.labels.subspan(begin, rows);
      const std::span<const float> came = in.subspan(begin * floats_in, rows * floats_in);
      if (stage.first == 0) part.images = came;
      PACELINE_RETURN_IF_ERROR(
          backend->evaluate({own, part, came}, out.subspan(begin * floats_out, rows * floats_out)));
      if (!stage.outputs.empty()) continue;
      PACELINE_ASSIGN_OR_RETURN(const Metric one, backend->loss(part, part.size()));
      metric += one;
    }
    return metric;
  }

  const Backend kind_;
  const NetworkSpec network_;
  const std::vector<StageSpec>& stages_;
  const std::int64_t samples_;
  const std::int64_t rows_;
  const bool keeps_;
  std::map<std::size_t, std::unique_ptr<StageBackend>> backends_;  // by first layer; one, where none are kept
};

}  // namespace

std::unique_ptr<NetworkBackend> evaluate_by_stages(Backend kind, const NetworkSpec& network,
                                                   const std::vector<StageSpec>& stages, std::int64_t samples,
                                                   std::int64_t rows, bool keeps) {
  return std::make_unique<StageEvaluation>(kind, network, stages, samples, rows, keeps);
}

}  // namespace paceline
