// How long the computation of a worker's iteration takes: a pure function of the run's seed, the worker and
// the clock. So worker w at clock c draws the same length under every policy, and two policies are compared
// on the same cluster.
//
//   length = mean x factor of the node x draw with mean 1
//     constant    1
//     normal      1 + cv z, drawn again while it is not above 0                    (cv <= 0.3: 1 in 2,300)
//     lognormal   exp(sigma z - sigma^2 / 2), sigma^2 = ln(1 + cv^2)
//     gamma       Gamma(1 / cv^2) x cv^2             Marsaglia and Tsang, ACM TOMS 26 (2000), p. 363
//     pareto      (a - 1) / a x U^(-1 / a), a = shape
//     recorded    a real run's histogram of the same worker (trace.h)
//   or, for `emulated`, what worker/emulate/emulator.h says: the very lengths of a real run with that seed.
//
// Worked example: mean 100 ms, slowdown [1, 1.5], constant: workers of node 1 compute for 150 ms.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "common/clock.h"
#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/random.h"

namespace paceline::simulate {

// Thread: any; immutable.
class ComputeTimes {
 public:
  virtual ~ComputeTimes() = default;
  // Of the iteration stamped `clock`, with a mini-batch of train.batch_size, on a machine that is neither
  // slow nor paused; > 0.
  virtual std::chrono::nanoseconds length(Rank worker, Clock clock) const = 0;
  // Whether the length counts from the iteration's start, reading the parameters included, as an emulated one
  // does (docs/CONFIG.md, Choosing emulate.base_step), or from where computing begins.
  virtual bool counts_from_start() const { return false; }
};

// As simulate.compute and emulate say; `config` has a mean, or a base_step.
std::unique_ptr<ComputeTimes> make_compute_times(const RunConfig& config);

// The draws with mean 1, one by one.
double normal_draw(double cv, CounterRandom& random);
double lognormal_draw(double cv, CounterRandom& random);
double gamma_draw(double cv, CounterRandom& random);
double pareto_draw(double shape, CounterRandom& random);

// `factors` for one node: none is 1, one serves all.
double factor_of(const std::vector<double>& factors, NodeId node);

}  // namespace paceline::simulate
