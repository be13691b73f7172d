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
  const auto length = plan_.compute_times->length(step.worker, step.clock);
  const Ticks from = plan_.compute_times->counts_from_start() ? step.started : step.begins;
  const Ticks due = speeds_.empty() ? after(from, length) : speeds_[step.worker.value].done(from, length);
  overran_ = due < step.begins;
  return std::max(due, step.begins);
}

Metric TimedComputation::metric(const Step& step) {
  const std::int64_t batch = plan_.config.train.batch_size;
  if (!plan_.metric) return {0.0, 0, batch};
  return plan_.metric->measure(step.worker, step.clock, step.revision.value * batch);
}

}  // namespace paceline::simulate
