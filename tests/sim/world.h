// One simulated run: the real engine, the real cache rules, what real nodes and servers say to each other
// again, a simulated network, shards, nodes, deaths, cuts, crashes of the servers and what is resumed after
// them, and the checkers. Everything follows from the plan's seed.
#pragma once

#include "tests/sim/counting.h"
#include "tests/sim/run_plan.h"

namespace paceline::test {

// How much reading cost, over all nodes, of the last generation.
struct Traffic {
  std::int64_t pulls = 0;         // sent, each to all shards
  std::int64_t server_reads = 0;  // reads that had to wait for one
};

// Which faults met something.
struct Faults {
  std::int64_t nodes_cut = 0, shards_cut = 0;  // connections that broke: of nodes, of shards to the authority
  std::int64_t messages_lost = 0;
  std::int64_t gone_on = 0;  // nodes' connections that followed one that broke
  // After them: gradients and pulls; grants and the like; messages between servers.
  std::int64_t retransmitted_by_nodes = 0, retransmitted_to_nodes = 0, retransmitted_by_servers = 0;
  std::int64_t lost_by_lease = 0;     // nodes cut off for longer
  std::int64_t back_after_lease = 0;  // of them, that came back as another incarnation
  std::int64_t server_crashes = 0;
  std::int64_t quiesced = 0;    // generations that were quiesced, and went on
  std::int64_t done_again = 0;  // iterations applied after the checkpoint that the run was resumed from
  std::int64_t ahead = 0;       // such checkpoints, with gradients of clocks beyond their version
  std::int64_t grants_ahead = 0;

  Faults& operator+=(const Faults& other);
  bool operator==(const Faults&) const = default;
};

// Runs it to its end and returns everything that was wrong; empty: nothing was. `faults`: what was met is
// added.
Violations simulate(const RunPlan& plan, Traffic* traffic = nullptr, Faults* faults = nullptr);

}  // namespace paceline::test
