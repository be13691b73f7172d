#include "worker/train/emulated_compute.h"

#include <chrono>

namespace paceline {
namespace {

// Every other worker of the machine may come first, each with a gradient that takes seconds.
constexpr std::chrono::minutes kSlotDeadline{10};

Result<Metric> compute_in_slot(WorkerContext& t, const std::function<Result<Metric>()>& compute) {
  ComputeSlot slot;
  if (t.slots != nullptr) {
    PACELINE_ASSIGN_OR_RETURN(slot, t.slots->acquire(kSlotDeadline));
  }
  return compute();
}

}  // namespace

Result<Metric> compute_at_pace(WorkerContext& t, const Paced& paced,
                               const std::function<Result<Metric>()>& compute) {
  auto metric = compute_in_slot(t, compute);
  const auto lasts = t.emulator.duration(paced.clock, paced.samples);
  if (!metric.is_ok() || !lasts) return metric;
  const Ticks due = paced.started + *lasts;
  if (t.pace.now() > due) {
    ++t.overruns;
  } else {
    t.pace.wait_until(due);
  }
  return metric;
}

}  // namespace paceline
