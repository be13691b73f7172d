// One simulated run: the real engine, the real cache rules, a simulated network, shards, nodes and deaths,
// and the checkers. Everything follows from the plan's seed.
#pragma once

#include "tests/sim/counting.h"
#include "tests/sim/run_plan.h"

namespace paceline::test {

// Runs it to its end and returns everything that was wrong; empty: nothing was.
Violations simulate(const RunPlan& plan);

}  // namespace paceline::test
