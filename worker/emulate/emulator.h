// Emulated heterogeneity: how long an iteration of a worker would have lasted on the cluster that is studied
// (docs/CONFIG.md, Choosing emulate.base_step). A pure function of the run's seed, the worker and the clock,
// so that two policies meet the same cluster.
//
//   duration = emulate.base_step x slowdown[node] x jitter draw (mean 1) x samples / train.batch_size
//
// counted from the iteration's start. That a step's time is proportional to its samples is assumed; they
// differ under balanced batches alone.
//
// Worked example: base_step 300 ms, slowdown [1, 2.5], no jitter. Worker 1.0 is granted at 10.00 s and has
// its gradient at 10.14 s; it goes on at 10.75 s. Had the gradient taken until 10.80 s, that would be an
// overrun: the emulated cluster could not be kept, and the summary says how often.
#pragma once

#include <cstdint>
#include <optional>

#include "common/clock.h"
#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/random.h"

namespace paceline {

// A random factor >= 0 with mean 1. uniform: 1 +- spread. lognormal: sigma = spread, so exp(sigma z - sigma^2
// / 2). exponential: 1 - spread + spread x Exp(1), the tail of a machine shared with others.
double jitter_draw(JitterKind kind, double spread, CounterRandom& random);

// The pace of one worker. Thread: immutable after construction.
class Emulator {
 public:
  // `batch_size`: what a mini-batch has that takes base_step.
  Emulator(const EmulateSection& settings, std::uint64_t seed, Cluster cluster, WorkerId worker,
           std::int64_t batch_size);

  // How long the iteration stamped `clock` lasts from its start, with a mini-batch of `samples`; nullopt when
  // nothing is emulated.
  std::optional<Duration> duration(Clock clock, std::int64_t samples) const;
  bool emulates() const { return settings_.base_step.has_value(); }

 private:
  EmulateSection settings_;
  std::uint64_t seed_;
  Rank rank_;
  double slowdown_;
  std::int64_t batch_size_;
};

}  // namespace paceline
