// What a stage of a pipeline did when: a pass of a micro-batch, without the wait for what it needed. A trace has them
// (common/trace/trace.h), and `paceline report` draws them.
#pragma once

#include <chrono>

#include "common/clock.h"
#include "common/instant.h"
#include "common/newest.h"
#include "common/schedule/pipeline.h"

namespace paceline::schedule {

struct PassSpan {
  Ticks begin;
  std::chrono::nanoseconds length{0};
  Clock clock;  // of the step
  PipelineRow row;
  Ticks end() const { return begin + length; }
};

using PassSpans = Newest<PassSpan>;

}  // namespace paceline::schedule
