// What a node waits for: what the servers owe it although they live, and for how long at most; what there is
// to say in the log about a wait that takes long; and whether this process itself stood still meanwhile,
// which counts against nobody.
//
// Thread: the I/O thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/log/log.h"
#include "common/log/stall_log.h"
#include "worker/client/grant_watch.h"
#include "worker/client/pulls.h"
#include "worker/client/server_link.h"

namespace paceline {

class ClientWaits {
 public:
  // How long a live server may send nothing of existing parameters that it was asked for, in leases. Long,
  // since a pull that needs a newer version waits while an older one leaves for a node that reads slowly
  // (docs/ARCHITECTURE.md, "Parameters in memory").
  static constexpr int kPullLeases = 60;
  // A heartbeat that comes later than this was not late: the whole process stood still.
  static constexpr std::chrono::milliseconds kPauseAtLeast{500};

  // `pulls` outlives this. `own`: PsClientOptions::own_waits. `comes_back`: the node has lost these servers
  // before, and has said so.
  ClientWaits(NodeId node, const ClusterSection& cluster, bool rejoins, Log log, Pulls& pulls,
              std::function<std::vector<Wait>()> own);

  GrantWatch& grants() { return grants_; }

  // The node is done: after its report it needs nothing of the other shards, which go before the nodes are
  // told.
  void only_authority() { only_authority_ = true; }
  // Whether the silence of that server is a fault.
  bool needs(ShardId server) const { return server == kAuthority || !only_authority_; }

  // The heartbeat is due at `now`, and then every cluster.heartbeat.
  void begin(Ticks now) { beat_due_ = now; }
  // To be called at each heartbeat. Who was stopped (SIGSTOP, a paused container) finds everybody's last
  // message old: that time is taken off, here and on `links`.
  void discount_pause_of(Ticks now, std::vector<ServerLink>& links);
  // kDeadlineExceeded, with what is waited for, when a live server owes this node a word for too long.
  Status check(Ticks now, const std::vector<ServerLink>& links);
  // Writes into the log what does not come, and why, as far as it can be seen from here; the server's log
  // knows the rest. Before training begins it is a warning, so that it is on the terminal, too.
  void announce(Ticks now, const std::vector<ServerLink>& links);

 private:
  std::vector<Wait> waits(Ticks now, const std::vector<ServerLink>& links) const;
  std::string silent(Ticks now, const std::vector<ServerLink>& links) const;

  const std::chrono::nanoseconds heartbeat_;
  const std::chrono::nanoseconds lease_;
  const bool rejoins_;
  const Log log_;
  Pulls& pulls_;
  const std::function<std::vector<Wait>()> own_;
  GrantWatch grants_;
  StallLog stalls_;
  Ticks stalls_due_;
  Ticks beat_due_;
  bool only_authority_ = false;
};

}  // namespace paceline
