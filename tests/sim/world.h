// One simulated run: the real engine, the real cache rules, a simulated network, shards, nodes and deaths,
// and the checkers. Everything follows from the plan's seed.
#pragma once

#include "tests/sim/counting.h"
#include "tests/sim/run_plan.h"

namespace paceline::test {

// How much reading cost, over all nodes.
struct Traffic {
  std::int64_t pulls = 0;         // sent, each to all shards
  std::int64_t server_reads = 0;  // reads that had to wait for one
};

// Runs it to its end and returns everything that was wrong; empty: nothing was.
Violations simulate(const RunPlan& plan, Traffic* traffic = nullptr);

}  // namespace paceline::test
