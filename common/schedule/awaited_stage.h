// Which stage makes what a row of a pipeline's schedule needs: a way back needs what the next stage makes, a way
// forward what the one in front does, and what is computed again is the stage's own. In front of the first stage is the
// last one, whose chunk in front (pipeline.h) it needs; at the network's ends a row needs none.
//
// Pure. Thread: any.
#pragma once

#include "common/schedule/pipeline.h"

namespace paceline::schedule {

enum class Awaited { kNone, kPrevious, kNext };

constexpr Awaited awaited_stage(const PipelineRow& row) {
  switch (row.pass) {
    case PipelineRow::Pass::kForward:
      return Awaited::kPrevious;
    case PipelineRow::Pass::kBackward:
      return Awaited::kNext;
    case PipelineRow::Pass::kRecompute:
      break;
  }
  return Awaited::kNone;
}

}  // namespace paceline::schedule
