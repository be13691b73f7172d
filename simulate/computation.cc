#include "simulate/computation.h"

#include <algorithm>

#include "simulate/virtual_time.h"

namespace paceline::simulate {

TimedComputation::TimedComputation(const Plan& plan) : plan_(plan) {
  const SimulatedCompute& compute = plan.config.simulate.compute;
  if (!NodeSpeed::varies(compute)) return;
  for (std::uint32_t r = 0; r < plan.cluster.workers(); ++r) {
    speeds_.emplace_back(compute, plan.config.run.seed, plan.cluster.worker_at(Rank(r)).node);
  }
}

Ticks TimedComputation::ends(const Step& step) {
  const double share =
      static_cast<double>(step.batch.samples) / static_cast<double>(plan_.config.train.batch_size);
  auto length = plan_.compute_times->length(step.worker, step.drawn_for);
  if (share != 1.0) length = length_of(static_cast<double>(length.count()) * share);
  const Ticks from = plan_.compute_times->counts_from_start() ? step.started : step.begins;
  const Ticks due = speeds_.empty() ? after(from, length) : speeds_[step.worker.value].done(from, length);
  overran_ = due < step.begins;
  return std::max(due, step.begins);
}

Computation::Computed TimedComputation::compute(const Step& step) {
  if (!plan_.metric) return {Metric{0.0, 0, step.batch.samples}};
  // What is applied is of so many samples, or of so many on average.
  const TrainSection& train = plan_.config.train;
  const std::int64_t learned = step.revision.value * train.round_samples();
  return {plan_.metric->measure(step.worker, step.drawn_for, learned, step.batch.samples)};
}

}  // namespace paceline::simulate
