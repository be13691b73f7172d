// ForeignStage: a stage of a pipeline whose model is not ours (docs/PYTHON.md). The plan, who waits for whom, what
// travels and what is measured are those of any stage (worker/pipeline/stage_runner.h); the loop computes a micro-batch
// when it is asked to.
//
// A mini-batch may be of any number of samples from that of the stages to that of the group's workers together. The
// stages' workers have as even a share of them as can be, so that what servers weigh by samples is the mean over all.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "common/config/run_config.h"
#include "common/metric.h"
#include "common/params/partition.h"
#include "common/status.h"
#include "common/task/peers.h"
#include "common/task/stage_report.h"
#include "common/task/task.h"
#include "worker/model/stage_backend.h"
#include "worker/pipeline/stage_runner.h"

namespace paceline {

class ForeignStage {
 public:
  // What the loop computes. `forward` tells how many bytes it keeps for the way back, and of the last stage the metric.
  struct Forward {
    Metric metric;
    std::int64_t bytes = 0;
  };
  struct Parts {
    std::vector<std::int64_t> ends;  // of each stage's parameters in the layout
    std::int64_t floats_in = 0;      // of a sample, from the stage in front; of the first 0
    std::int64_t floats_out = 0;     // to the next; of the last 0
    std::function<Result<Forward>(const StagePass& pass, std::span<float> out)> forward;
    // As StageBackend::backward(); of a loss the gradient is of the samples' sum divided by `divisor`.
    std::function<Status(const StagePass& pass, std::int64_t divisor, std::span<const float> out_difference,
                         std::span<float> in_difference, std::span<float> gradient)>
        backward;
    std::function<Status()> while_waiting = {};  // StageRunner::Stage's
  };
  // Errors: kInvalidArgument a cut that is none of `floats`, or not of the run's stages.
  static Result<std::unique_ptr<ForeignStage>> make(const RunConfig& config, NodeId node, std::int64_t floats,
                                                    Parts parts);

  // As those of a TaskFactory. Thread: any.
  Range trained_by(NodeId node) const;
  void meet(std::shared_ptr<PeerChannels> peers);
  std::vector<PeerBounds> peer_bounds(NodeId node) const;
  StageReport report() const;
  void record_passes(schedule::PassSpans* into) { passes_ = into; }
  // Of the cut, which all nodes have in common.
  std::uint64_t fingerprint() const;

  // The way of a mini-batch of `samples` through this stage; writes the `gradient`, whole. The metric is this
  // worker's share of it. Thread: the loop's. Errors: kInvalidArgument another number of samples than the stages to
  // train.batch_size of each; those of StageRunner::step() and of what the loop computes.
  Result<Metric> step(const Step& step, std::int64_t samples, std::span<const float> parameters,
                      std::span<float> gradient);
  // Of the last step, for how long it waited for other stages. Thread: any.
  std::chrono::nanoseconds waited() const;

 private:
  ForeignStage(const RunConfig& config, NodeId node, Parts parts);
  Status make_runner(std::int64_t samples);
  std::uint32_t stages() const { return static_cast<std::uint32_t>(parts_.ends.size()); }
  std::int64_t share(std::int64_t samples, std::uint32_t stage) const;

  const PipelineSection pipeline_;
  const bool reduces_;
  const std::int64_t samples_max_;
  const NodeId node_;
  const std::uint32_t stage_;
  const Parts parts_;
  schedule::PassSpans* passes_ = nullptr;  // set before any round
  // The loop's thread's.
  std::unique_ptr<StageRunner> runner_;
  std::int64_t samples_ = 0;  // that it is for
  StageReport before_;        // of those that it had before
  std::vector<Label> labels_;

  mutable std::mutex mutex_;
  std::shared_ptr<PeerChannels> peers_;
  StageReport report_;
  std::chrono::nanoseconds waited_{0};
};

}  // namespace paceline
