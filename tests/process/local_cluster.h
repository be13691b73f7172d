// A whole run in one process: servers and nodes as objects, each on its own thread with its own sockets, over
// ipc in a folder of its own, or over tcp at ports that the system chooses. Real engine, real store, real
// wire; only the process boundary is missing (tests/process/daemons/ has that).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/params/model_file.h"
#include "common/report/run_summary.h"
#include "common/status.h"
#include "common/task/task.h"
#include "common/wire/messages.h"
#include "common/wire/transport.h"
#include "tests/process/breaking_relay.h"
#include "worker/node.h"

namespace paceline::testing {

// Asks a node of the run to leave. Thread: any, for as long as the run lasts.
using StopNode = std::function<void(NodeId, const std::string& reason)>;

// Is shown a message from or to a node, on the relay's thread: what it says and what it is told each in order
// (relay.h).
using Observe = std::function<void(const wire::PeerId& node, const wire::Body&)>;

struct ClusterRun {
  std::vector<Status> servers;         // by shard
  std::vector<Status> nodes;           // by node; OK for those elsewhere
  RunSummary summary;                  // as read back from summary.json
  ModelFile model;                     // as read back from model.bin
  std::int64_t broken = 0;             // connections, by relays
  std::int64_t broken_of_servers = 0;  // of those, to the authority by another server
};

// Runs `config` (its endpoints and run.out are replaced) to the end on Tasks from `tasks`: over tcp where
// over_tcp() (transport.h), else over ipc. A run that leaves no summary or no model is an error that says so,
// with what the authority returned.
//
// Where `tasks` gives nullptr for a node, that node runs elsewhere (another process, or a script):
// `elsewhere` starts it. It is called once, with the configuration as it is run, when the servers listen.
//
// With an `overhear`, what the nodes here and the authority say to each other goes through a Relay, over the
// same transport, that shows it every message. A Relay sends all payloads: with cluster.shared_memory `auto`
// the nodes here share memory with the other shards alone, with `on` the run fails.
//
// With `breaks`, what the nodes here and each server, and the other servers and the authority, say to each
// other goes through a BreakingRelay of its own, and connections break: so many for each of these relays. Not
// together with an `overhear`, which cannot tell what is given twice.
Result<ClusterRun> run_cluster(
    RunConfig config, const std::function<std::unique_ptr<TaskFactory>(NodeId, const StopNode&)>& tasks,
    const std::function<void(const RunConfig&)>& elsewhere = {}, const Observe& observe = {},
    const NodeOptions& node_options = {}, const std::optional<Breaks>& breaks = {});

}  // namespace paceline::testing
