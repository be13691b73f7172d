// A stage's back end: what computes a contiguous part of a network (common/network/stages.h) on one micro-batch at a
// time, forward and backward. Layers are the same as in the back end of a whole network (backend.h), numbers too, up
// to rounding; so are dropout masks, which go by sample and epoch.
//
// What comes in and goes on are values, each samples x size, row-major, one after the other in the order in which
// StageSpec names them. What comes back, and goes back, is of those values alone that depend on a parameter
// (only_trained()).
//
// One holds the activations of one micro-batch: a stage has as many as micro-batches are kept. Belongs to the thread
// that made it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "common/config/run_config.h"
#include "common/metric.h"
#include "common/network/stages.h"
#include "common/status.h"
#include "worker/model/batch.h"

namespace paceline {

// A micro-batch on its way through a stage. `parameters`: the stage's own. `batch`: its labels and the keys of its
// dropout. `in`: what comes in; of the first stage the images. `first`: its first sample's place in the mini-batch.
// `is_kept`: false where the same samples are taken forward once more before their way back.
struct StagePass {
  std::span<const float> parameters;
  Batch batch;
  std::span<const float> in;
  std::int64_t first = 0;
  bool is_kept = true;
};

class StageBackend {
 public:
  virtual ~StageBackend() = default;

  // Takes the micro-batch forward, dropout on, and keeps its activations until the next call. `out`: what goes on;
  // empty where nobody wants it, as of the last stage. As often as one likes, always with the same bits. Errors:
  // kInternal where the library fails.
  virtual Status forward(const StagePass& pass, std::span<float> out) = 0;

  // The same as an evaluation does it: without dropout, normalised by the running statistics. No backward() follows.
  virtual Status evaluate(const StagePass& pass, std::span<float> out) = 0;

  // After one of these, of the last stage: the loss, whose gradient is of the sum over the samples divided by
  // `divisor`. Labels are classes, as loaders check.
  virtual Result<Metric> loss(const Batch& batch, std::int64_t divisor) = 0;

  // After forward() and loss(), with the same micro-batch, but for what came in: writes the gradient of the stage's
  // parameters, whole, and what goes back (of the first stage empty). `out_difference`: what has come back; of the last
  // stage empty. Errors: as forward().
  virtual Status backward(const StagePass& pass, std::span<const float> out_difference,
                          std::span<float> in_difference, std::span<float> gradient) = 0;

  // That it holds for the micro-batch between the two passes.
  virtual std::int64_t activation_bytes() const = 0;
};

// Of up to `samples` samples. `seed` keys the dropout. Errors: those of make_backend().
Result<std::unique_ptr<StageBackend>> make_stage_backend(Backend kind, const NetworkSpec& network,
                                                         const StageSpec& stage, std::int64_t samples,
                                                         std::uint64_t seed);

// The two of them (reference.h, onednn.h). `network` is of_stage().
std::unique_ptr<StageBackend> make_reference_stage(NetworkSpec network, const StageSpec& stage,
                                                   std::uint64_t seed);
Result<std::unique_ptr<StageBackend>> make_onednn_stage(NetworkSpec network, const StageSpec& stage,
                                                        std::int64_t samples, std::uint64_t seed);

// The network with the parameters of the stage alone: its layers' ranges are of a vector of these.
NetworkSpec of_stage(NetworkSpec network, const StageSpec& stage);

}  // namespace paceline
