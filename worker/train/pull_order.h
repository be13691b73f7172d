// Whether a node asks for a refresh before its gradients or after them (common/cache/freshness.h), where
// the configuration leaves it open (sync.pull_order: auto).
//
// Before the push, parameters come down while the gradient goes up. That hides one of the two where different things
// carry them: the two directions of a network, or another core than the one that the worker computes on. It
// costs passes over memory, so where every core of the machine is busy anyway after the push is the faster one:
//
//   another machine's server                            before
//   this machine's, more threads to do than cores       after
//   this machine's, cores to spare                      before
//   workers whose threads wait: a GPU computes, or a    before
//     cluster is emulated, which is to be one
//   several shards                                      before: a shard is mostly asked before all of them
//                                                       have the gradient, so its answer lacks it anyway
//
// How much (one shard, two cores, docs/lab/PERFORMANCE.md): 256 MB sent over loopback are 1.2 times as fast
// behind, 40 MB of four workers in shared memory 1.4 times; of one worker, for whom and for whose server
// there is a core each, 0.8 times.
#pragma once

#include <cstdint>

#include "common/config/run_config.h"

namespace paceline {

// What is between a node and its servers.
struct WayToServers {
  bool on_this_machine = false;     // all of them, and so all nodes
  bool read_in_place = false;       // payloads are, both ways, in shared memory; else they are sent
  bool computes_elsewhere = false;  // the workers' threads wait for it
  std::int64_t shards = 1;
  std::int64_t replicas = 1;
  std::int64_t workers = 1;  // of the run
  std::int64_t cores = 1;    // of this machine; 0: nobody knows
};

// `shares`: memory, this node with its servers.
WayToServers way_to_servers(const RunConfig& config, bool shares, std::int64_t cores);

bool pulls_before_push(PullOrder order, const WayToServers& way);

}  // namespace paceline
