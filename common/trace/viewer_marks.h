// What a viewer draws beside the events of a trace: how many workers are held, the threshold and LPR as
// curves over time, and an arrow from whom a worker waited for to the end of its wait. All of it follows from
// the events: it is written for viewers, not counted, and left out when a trace is read back.
//
// Thread: any.
#pragma once

#include <vector>

#include "common/trace/trace.h"

namespace paceline::trace {

// From `at` on a curve has this value.
struct CurvePoint {
  Ticks at;
  const char* curve;
  const char* unit;
  double value;
};

// In the order of time of each curve; a point where the value changes. An infinite threshold has none.
std::vector<CurvePoint> curves_of(const Trace& trace);

// A worker's step let another one go: from what it did then to the end of the other's BARRIER.
struct Arrow {
  WorkerId from;
  Ticks left;
  WorkerId to;
  Ticks arrived;  // left <= arrived
};

// Of every wait in the trace whose grant names a worker, in the order of the spans.
std::vector<Arrow> arrows_of(const Trace& trace);

}  // namespace paceline::trace
