// Computations as a traced run recorded them (run.trace), one after another: worker w's k-th is what its own
// k-th was, so that a slow period stays one, and what slowed all workers at a time does so here at about that
// time. Draws from a histogram (trace.h) are as long, but independent. A worker that computes more often than
// it was recorded begins anew with its first; where the oldest are left out, its first is the first that was
// kept.
#pragma once

#include <cstdint>
#include <memory>

#include "common/status.h"
#include "common/trace/trace.h"
#include "simulate/compute_times.h"

namespace paceline::simulate {

struct ReplayedTimes {
  std::unique_ptr<ComputeTimes> times;
  std::uint64_t fingerprint = 0;  // of all lengths
};

// Errors: kFailedPrecondition naming a worker of `cluster` of which no computation was recorded.
Result<ReplayedTimes> replayed_times(const trace::Trace& recorded, const Cluster& cluster);

}  // namespace paceline::simulate
