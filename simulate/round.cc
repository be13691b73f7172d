#include "simulate/round.h"

#include <cmath>

namespace paceline::simulate {

void Round::begin_step(std::int64_t local_step, Ticks granted_at, Ticks now) {
  step_began_ = now;
  step_.started = now;
  if (local_step > 0) return;
  began_ = now;
  step_.started = granted_at;
  computed_ = {};
}

const Computation::Step& Round::compute(const sync::Grant& grant, Rank worker,
                                        const cache::ThreadCacheState& parameters, std::int64_t local_step,
                                        Ticks now) {
  const BatchPart round{grant.position, grant.samples};
  const std::int64_t mini_batch = train_.mini_batch_of_local_steps();
  const std::int64_t steps = step::local_steps_of(round, mini_batch);
  const auto place = [&](std::int64_t begin) {
    return step::local_place(begin * train_.local_steps, train_.local_steps, local_step, steps);
  };
  step_ = {worker,
           grant.clock,
           step_.started,
           now,
           parameters.version,
           parameters.revision,
           step::local_batch(round, mini_batch, local_step),
           place(grant.iteration),
           grant.threshold,
           grant.min_version,
           local_step,
           steps,
           Clock(place(grant.clock.value))};
  return step_;
}

Round::Ended Round::end_step(Computation& computation, Ticks now) {
  ++steps_;
  const bool late = step::time_is_up(train_.local_time, now - began_, now - step_began_);
  if (late) step_.local_steps = step_.local_step + 1;
  const Computation::Computed computed = computation.compute(step_);
  computed_.metric += computed.metric;
  computed_.fault = computed.fault;
  const bool finite = std::isfinite(computed.metric.loss_sum);
  return {finite, late, !finite || step_.local_step + 1 == step_.local_steps};
}

}  // namespace paceline::simulate
