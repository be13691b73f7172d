// Node: one worker process's work as an object. It joins the servers, runs its training threads and its
// evaluator on any Task, and reports at the end; several nodes and a server can live in one process.
//
//   wire::Context context;
//   Node node(config, NodeId(0), context, std::move(tasks), log);
//   Status ended = node.run();        // request_stop() from another thread ends it early
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/log/log.h"
#include "common/status.h"
#include "common/task/task.h"
#include "common/wire/transport.h"

namespace paceline {

struct NodeOptions {
  // Floats of a gradient that leave at once when it is computed (client/ps_client.h); nullopt: as many as
  // serve best. Tests make gradients of a few floats leave in parts.
  std::optional<std::int64_t> floats_at_once;
  // Where the configuration says train.local_time (config's source_of()), for whoever is told that it is too short.
  std::string local_time_source = "the configuration";
  // Whether a node that goes before the run's end has done what it was to do; none: it has not.
  std::function<bool()> has_finished;
};

class Node {
 public:
  // `context` outlives the node. The configuration has been validated (common/config/load.h).
  Node(const RunConfig& config, NodeId node, wire::Context& context, std::unique_ptr<TaskFactory> tasks,
       Log log = Log(), NodeOptions options = NodeOptions());
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // Takes part in the run until the authority ends it; with cluster.reconnect_timeout also when its servers
  // are lost and others go on with the run (session.h). Once. OK when the run ended well. Errors: kAborted
  // after request_stop(), with its reason; why a server refused this node; kDeadlineExceeded naming a server
  // that did not answer, fell silent or did not come back; what is wrong with its keys (wire/keys.h); a
  // task's fault; or the fault with which the authority ended the run. After it no socket of `context` is the node's.
  Status run();

  // Whether it was granted anything, so that the run had begun; of one that was not, nothing is left behind. After
  // run().
  bool has_trained() const;

  // Leaves the run in order: running steps are finished (an emulated one is cut short), the servers are told,
  // and run() returns. Thread: any; not from a signal handler. Before run() it makes run() return at once.
  void request_stop(const std::string& reason);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline
