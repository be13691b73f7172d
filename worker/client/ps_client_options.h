// PsClientOptions: what a PsClient must know; all of it outlives the client.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/log/log.h"
#include "common/log/stall_log.h"
#include "common/params/partition.h"
#include "common/ticks.h"
#include "common/wire/transport.h"
#include "worker/client/client_state.h"
#include "worker/exchange/run_state.h"

namespace paceline {

struct PsClientOptions {
  ClusterSection cluster;
  NodeId node;
  std::uint64_t incarnation = 0;           // a random number of this process
  std::uint64_t config_fingerprint = 0;    // what all daemons must agree on
  std::vector<std::string> settings = {};  // and by key (common/config/load.h)
  std::uint64_t data_fingerprint = 0;      // and what all nodes' data must
  Log log;
  // To share with servers of this machine: where gradients lie. Null: nothing is shared.
  std::shared_ptr<wire::SharedSegment> memory{};
  std::string unshared{};  // why there is none
  // For the parameters in the memory of such servers, called by the client's I/O thread. Empty: as they are.
  wire::Pin pin{};
  // Where a device reads parameters by itself: all are put there as they come, but those that are pinned and
  // those that an evaluator has asked for.
  // Null: they are where they came, or on the heap.
  std::shared_ptr<std::pmr::memory_resource> parameters{};
  // Called once, when the client closes, by whichever thread closes it: for waits that the client does not
  // know. It returns soon and does not call back.
  std::function<void()> on_closed = [] {};
  // How much of a gradient that is computed leaves while the next of it is looked at: some frames, and little
  // enough that what is looked at last is still in the processor's cache when it leaves.
  static constexpr std::int64_t kFloatsAtOnce = std::int64_t{1} << 18;
  std::int64_t floats_at_once = kFloatsAtOnce;
  // What time it is for all that may last too long, and for what is said of when parameters, grants and the end came.
  // (How long the client's own work takes is measured by steady_now().) Any thread.
  std::function<Ticks()> clock = steady_now;
  // What the heartbeats to the authority say. Called by the client's I/O thread. Empty: nothing.
  std::function<wire::Heartbeat()> heartbeat{};
  // What the node waits for besides, of itself, once a second, to be logged where it takes long. Called by
  // the client's I/O thread. Empty: nothing.
  std::function<std::vector<Wait>()> own_waits{};
  // All-reduce, by the client's I/O thread, ahead of what the node is granted next. The version that it is at has
  // been asked for by the authority, or will be, to be evaluated: fetch_exact() is not to miss it. And its state at
  // that version, for a checkpoint; null where it is past that. Empty: it has none.
  std::function<void(Version)> on_evaluate{};
  std::function<std::shared_ptr<const RunState>(Version)> state_at{};
  // All-reduce, by the client's I/O thread: the formation of that number is over, since a node of it is lost: `why`, as
  // the authority says.
  std::function<void(std::uint32_t formation, const std::string& why)> on_formation_over{};
  // To show to the servers, and by which they are known. Null: the connections are not protected.
  std::shared_ptr<const wire::ClientKeys> keys{};
  // What the node's client before this one was closed for the loss of, and the generation of its servers:
  // this one then tries for cluster.reconnect_timeout to join those of a later one.
  Lost lost = Lost::kNothing;
  std::uint64_t last_generation = 0;
  // What of the layout this node trains (a stage of a pipeline): pushes and pulls are of it alone. Null: all.
  std::optional<Range> trained{};
  // Where the layout is cut into shards (shard_ranges.h). Empty: nearly equal ranges.
  std::vector<Range> shards{};
  // A grant may come while the iteration before is still computed or pushed (exchange.hidden).
  bool granted_ahead = false;
  // Of the node's flat vectors, in which gradients leave and parameters come (exchange.fragments). Empty: gradients
  // leave as their frames become final, parameters come whole.
  std::vector<Range> fragments{};
};

}  // namespace paceline
