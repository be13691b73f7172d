// StageRunner: carries out a stage's rows of a pipeline's plan (common/schedule/pipeline.h), a mini-batch at a time
// (Huang et al. 2018, section 2.2). Activations arrive from the stage in front and go on to the next one; what comes
// back of them goes the other way, with the loss of the micro-batch, so that every stage knows that of all. Of a stage
// with several chunks of the network they go on from the last stage to the first (Narayanan et al. 2021, section 2.2).
//
// The gradient is that of the mean loss over the mini-batch, up to the divisor: the sum over the samples is divided by
// Parts::divisor. Gradients of micro-batches are added in the order of their backward passes.
//
// Memory: a back end for each micro-batch whose activations are kept at a time; with rematerialisation one, and what
// came in of each micro-batch on its way.
//
// Thread: the one that made it.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/metric.h"
#include "common/network/stages.h"
#include "common/schedule/pass_span.h"
#include "common/schedule/pipeline.h"
#include "common/status.h"
#include "common/task/peers.h"
#include "common/task/stage_report.h"
#include "worker/model/stage_backend.h"
#include "worker/pipeline/measured_norms.h"

namespace paceline {

// Of a chunk and a sample, in floats: what comes in (of the first one the image) and goes on (of the last none), and
// what comes back of the latter and goes back of the former.
struct StageFloats {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t back_in = 0;
  std::int64_t back_out = 0;
};

class StageRunner {
 public:
  struct Parts {
    const NetworkSpec& network;
    std::vector<StageSpec> chunks;  // of the whole cut: of each stage of the plan as many
    std::uint32_t stage = 0;        // this one
    NodeId node;                    // that it is on; the stages of its group are on nodes in a row
    schedule::PipelinePlan plan;    // checked
    std::int64_t samples = 0;       // of the mini-batch
    std::int64_t divisor = 0;
    Backend backend = Backend::kOnednn;
    std::uint64_t seed = 0;
    schedule::PassSpans* passes = nullptr;  // where they are recorded, if anywhere; outlives it
  };
  // `parts.network` outlives it, and is laid out by stages. Errors: those of make_stage_backend().
  static Result<std::unique_ptr<StageRunner>> make(Parts parts);

  // A part of the network, whatever computes it.
  struct Chunk {
    StageFloats floats;
    Range parameters;  // within the stage's
    // For micro-batches of up to `samples`.
    std::function<Result<std::unique_ptr<StageBackend>>(std::int64_t samples)> make_backend;
    std::optional<MeasuredNorms> norms;  // that its gradient has places of
  };
  struct Stage {
    std::uint32_t stage = 0;  // this one
    std::uint32_t stages = 1;
    NodeId node;
    schedule::PipelinePlan plan;  // checked
    std::int64_t samples = 0;     // of the mini-batch
    std::int64_t divisor = 0;
    std::vector<Chunk> chunks;  // as many as the plan has of a stage; together they have all its parameters
    schedule::PassSpans* passes = nullptr;  // as Parts'
    // Called several times a second while another stage is waited for: what is not OK ends the step. Empty: nobody
    // looks.
    std::function<Status()> while_waiting = {};
  };
  // Errors: those of make_backend.
  static Result<std::unique_ptr<StageRunner>> make(Stage stage);

  // By stage of the group, what may come from it while a step is under way, and what goes to it: no more than the plan
  // has between two passes.
  static std::vector<PeerBounds> peer_bounds(const NetworkSpec& network, const std::vector<StageSpec>& chunks,
                                             std::uint32_t stage, const schedule::PipelinePlan& plan,
                                             std::int64_t samples);

  // Which step of the run: all stages of a group are at the same one, and have the same mini-batch.
  struct At {
    Clock clock;
    std::int64_t position = 0;  // of the mini-batch's first sample
  };
  // One mini-batch: of `batch`, whose images the first stage needs alone, at the stage's `parameters`. Writes its
  // `gradient`, whole. The metric is of the whole mini-batch. Errors: those of the channels, naming stage and node;
  // kFailedPrecondition another stage is at another step or has another plan; those of the back end.
  Result<Metric> step(const At& at, std::span<const float> parameters, const Batch& batch,
                      std::span<float> gradient, PeerChannels& channels);

  // Of the last step, for how long it waited for other stages.
  std::chrono::nanoseconds waited() const { return waited_; }
  // Of all steps.
  const StageReport& report() const { return report_; }

 private:
  // A micro-batch between its forward and its backward pass.
  struct KeptPass {
    PeerFloats in;  // kept where it is computed again, and by who reads it
    std::size_t backend = 0;
    std::int64_t bytes = 0;  // of activations that are kept
  };
  // A chunk at work.
  struct Working {
    const Chunk* of = nullptr;
    std::uint32_t number = 0;      // of the stage's
    bool is_first = false;         // of the network's
    bool is_last = false;          // of the network's
    std::vector<bool> recomputed;  // by micro-batch
    std::vector<std::unique_ptr<StageBackend>> backends;
    std::vector<std::size_t> free;  // of backends
    std::vector<KeptPass> held;     // by micro-batch
    std::optional<MeasuredNorms> norms;
    bool has_gradient = false;  // in the step under way
  };
  enum class Way { kForward, kBackward };
  explicit StageRunner(Stage stage);
  Status make_backends();
  Batch rows(std::uint32_t micro_batch, bool with_images) const;
  Status run(const schedule::PipelineRow& row);
  Status forward(Working& chunk, std::uint32_t micro_batch);
  Status backward(Working& chunk, std::uint32_t micro_batch);
  Status compute_forward(Working& chunk, std::uint32_t micro_batch, bool is_kept, std::span<float> out);
  template <typename Float>
  static std::span<Float> part(std::span<Float> of_stage, const Working& chunk);
  NodeId beside(Way from) const;
  PeerRoom room(NodeId to, std::int64_t floats);
  Result<PeerMessage> await(NodeId node);
  Result<PeerMessage> next(Way way);
  Result<PeerMessage> receive(Way way, const Working& chunk, std::uint32_t micro_batch,
                              std::int64_t floats_each);
  Status send(Way way, std::uint32_t pass, const Metric& metric, PeerRoom floats);
  std::uint32_t pass_of(std::int64_t chunk, std::uint32_t micro_batch) const;
  void keep(KeptPass& held, std::int64_t bytes);
  std::string name_of(NodeId node) const;

  const Stage of_;
  const schedule::PipelineRows& rows_;  // of of_
  std::vector<std::int64_t> begins_;    // of each micro-batch in the mini-batch, and its end
  std::vector<Working> chunks_;
  std::vector<float> part_;  // a micro-batch's gradient

  // Of the step under way.
  At at_;
  std::span<const float> parameters_;
  const Batch* batch_ = nullptr;
  std::span<float> gradient_;
  PeerChannels* channels_ = nullptr;
  Metric metric_;
  std::vector<Metric> losses_;  // by micro-batch, of the last stage
  // By way, what has come ahead of its turn: of two stages with several chunks each, both ways are between the same
  // nodes.
  std::array<std::deque<PeerMessage>, 2> early_;

  std::chrono::nanoseconds waited_{0};
  std::chrono::nanoseconds waited_for_previous_{0};  // of it
  Ticks pass_began_;                                 // after the wait for what it needs
  std::int64_t activations_ = 0;                     // bytes kept now
  StageReport report_;
};

}  // namespace paceline
