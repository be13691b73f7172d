// What a stage of a pipeline has done in a run, for the run's summary (docs/PIPELINES.md).
#pragma once

#include <chrono>
#include <cstdint>

namespace paceline {

struct StageReport {
  std::chrono::nanoseconds busy{0};   // computing forward and backward passes
  std::chrono::nanoseconds idle{0};   // within its steps, waiting for other stages
  std::int64_t activation_bytes = 0;  // kept for backward passes, at most at a time
  std::chrono::nanoseconds idle_for_previous{
      0};  // of the idle time, for the stage in front; the rest is for the next

  bool operator==(const StageReport&) const = default;
};

}  // namespace paceline
