#include "worker/train/emulated_compute.h"

#include <chrono>

namespace paceline {
namespace {

// Every other worker of the machine may come first, each with a gradient that takes seconds.
constexpr std::chrono::minutes kSlotDeadline{10};

Result<Metric> compute_in_slot(WorkerContext& t, const ComputeNow& compute, const FinalFrom& final_from) {
  ComputeSlot slot;
  if (t.slots != nullptr) {
    PACELINE_ASSIGN_OR_RETURN(slot, t.slots->acquire(kSlotDeadline));
  }
  const auto at_work = working(t.watch, WorkWatch::Work::kGradient, t.step.grant().clock);
  return compute(final_from);
}

}  // namespace

Result<Metric> compute_at_pace(WorkerContext& t, const Paced& paced, const ComputeNow& compute,
                               const FinalFrom& final_from) {
  const auto lasts = t.emulator.duration(paced.clock, paced.samples);
  const bool emulated = lasts || t.slots != nullptr;
  auto metric = compute_in_slot(t, compute, emulated ? FinalFrom(whole_at_the_end) : final_from);
  if (!metric.is_ok()) return metric;
  if (lasts) {
    const Ticks due = paced.started + *lasts;
    if (t.pace.now() > due) {
      ++t.overruns;
    } else {
      t.pace.wait_until(due);
    }
  }
  return metric;
}

}  // namespace paceline
