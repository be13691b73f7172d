// Computation: what becomes of a worker that has its parameters and its mini-batch: when it has its gradient,
// and what metric it reports. The node knows no more of computing than this, so that what really computes
// gradients, in the order of the events, can stand in its place.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/instant.h"
#include "common/metric.h"
#include "simulate/node_speed.h"
#include "simulate/plan.h"

namespace paceline::simulate {

// Thread: one.
class Computation {
 public:
  virtual ~Computation() = default;
  struct Step {
    Rank worker;
    Clock clock;
    Ticks started;  // the iteration: the grant was there
    Ticks begins;   // computing
    Version version;
    Revision revision;         // of the parameters
    std::int64_t samples = 0;  // of the mini-batch
  };
  // When the gradient is there; not before `begins`. Steps of one worker come one after another.
  virtual Ticks ends(const Step& step) = 0;
  // Whether it was to have been there before it began: an emulated step that does not fit.
  virtual bool overran() const = 0;
  virtual Metric metric(const Step& step) = 0;
};

// Timing mode: lengths and metrics are drawn, nothing is computed.
class TimedComputation final : public Computation {
 public:
  explicit TimedComputation(const Plan& plan);
  Ticks ends(const Step& step) override;
  bool overran() const override { return overran_; }
  Metric metric(const Step& step) override;

 private:
  const Plan& plan_;
  std::vector<NodeSpeed> speeds_;  // by rank; empty where nothing varies
  bool overran_ = false;
};

}  // namespace paceline::simulate
