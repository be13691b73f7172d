// A run into which a node comes while it goes on: again, after it was killed, or late. Drawn from its seed,
// as crash_run.h does; counting_node.cc is the process that dies.
#pragma once

#include "tests/process/crash_run.h"

namespace paceline::testing {

// From this clock on nobody goes on without the node that is to come.
inline constexpr std::int64_t kGate = 12;

// Three nodes; every gradient counts for itself, so that each worker's can be read off the vector.
inline CrashRun join_run(std::uint64_t seed) {
  CrashRun run = crash_run(seed);
  CounterRandom random(seed, Stream::kTest, 90);
  run.config.cluster.nodes = 3;
  run.config.cluster.threads_per_node = 1 + static_cast<std::uint32_t>(random.next_below(2));
  run.config.cluster.lease = std::chrono::seconds(20);
  run.config.sync.combine = CombineMode::kEach;
  scale_stages(run.config);
  run.config.train.eval_every_clocks.reset();
  run.config.train.local_steps = 1;
  run.config.train.has_inner_optimizer = false;
  run.config.exchange.hidden = false;
  run.config.exchange.fragments = 1;
  run.config.train.total_iterations = run.config.cluster.cluster().workers() * std::int64_t{40};
  // Two of five, where the policy may grant ahead: parts of the others' deltas are under way all the time.
  if (seed % 5 < 2) hide_in_fragments(2 + static_cast<std::uint32_t>(seed % 5), run.config);
  run.per_clock = 1;
  draw_death(random, run);
  if (run.death == Death::kStandingStill) run.death = Death::kAroundPush;
  return run;
}

}  // namespace paceline::testing
