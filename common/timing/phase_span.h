// One stretch of one phase, with its instants: what a trace (common/trace) is made of, while phases.csv knows
// their sums. A recorder that is given a log of them adds one for each that lasted; where it has none, it
// costs nothing.
//
// The parts of an exchange, whose order nobody sees, are written one after the other, as they depend on each
// other: STEP, PS_APPLY_GRADS, BARRIER, PS_PARAM.
#pragma once

#include <chrono>

#include "common/clock.h"
#include "common/instant.h"
#include "common/newest.h"
#include "common/timing/phases.h"

namespace paceline {

struct PhaseSpan {
  Ticks begin;
  std::chrono::nanoseconds length{0};
  Clock clock;  // the iteration it was for; BARRIER and PS_PARAM: the one that they came before
  Phase phase = Phase::kBatch;

  Ticks end() const { return begin + length; }
};

using PhaseSpans = Newest<PhaseSpan>;

}  // namespace paceline
