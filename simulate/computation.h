// Computation: what becomes of a worker that has its parameters and its mini-batch: when it has its gradient,
// and what metric it reports. The node knows no more of computing than this: whether a gradient is really
// computed (training.h) or only its time (timing mode) is decided by who stands here.
#pragma once

#include <string>
#include <vector>

#include "common/batch_part.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/instant.h"
#include "common/metric.h"
#include "simulate/node_speed.h"
#include "simulate/plan.h"

namespace paceline::simulate {

class Training;

// Thread: one.
class Computation {
 public:
  virtual ~Computation() = default;
  struct Step {
    Rank worker;
    Clock clock;
    Ticks started;  // the iteration: the grant was there, or the local step before is done
    Ticks begins;   // computing
    Version version;
    Revision revision;  // of the parameters
    // As granted.
    BatchPart batch;
    std::int64_t iteration = 0;
    Threshold threshold;
    Version min_version;
    std::int64_t local_step = 0;  // of the round that `batch` and `iteration` are a part of
    std::int64_t local_steps = 1;
    Clock drawn_for;  // what its length and the like are those of
  };
  struct Computed {
    Metric metric;
    std::string fault = {};  // what of the loss or the gradient is not finite; empty: all is
  };
  // When the gradient is there; not before `begins`. Steps of one worker come one after another.
  virtual Ticks ends(const Step& step) = 0;
  // Whether it was to have been there before it began: an emulated step that does not fit.
  virtual bool overran() const = 0;
  // To be asked when the gradient is there.
  virtual Computed compute(const Step& step) = 0;
  // The numbers behind the stamps; nullptr in timing mode.
  virtual Training* training() { return nullptr; }
};

// Timing mode: lengths and metrics are drawn, nothing is computed.
class TimedComputation final : public Computation {
 public:
  explicit TimedComputation(const Plan& plan);
  Ticks ends(const Step& step) override;
  bool overran() const override { return overran_; }
  Computed compute(const Step& step) override;

 private:
  const Plan& plan_;
  std::vector<NodeSpeed> speeds_;  // by rank; empty where nothing varies
  bool overran_ = false;
};

}  // namespace paceline::simulate
