// LateNodes: nodes that come while training goes on: late (cluster.nodes: {min: 2, max: 8}), or again, as another
// process of a node that was lost. A node takes part from the moment at which all servers have welcomed it, so nobody
// waits for one that never gets that far.
//
//   Join            let in, where training can take it. Its Welcome says that the run is under way. The other
//                   shards are sent NodeAdmitted, as they are for every node, at the start too
//   NodeReady       its threads join in the core: granted from the min clock on, by a new plan (docs/SYNC.md)
//   Lost before     nothing has begun, nobody was told
//
// What the process before had sent may still be on its way, from the shards that had it whole or that had lost it
// themselves: it is told by its stamp, or by its incarnation, and dropped (run_members.h).
//
// Thread: one at a time (the server's loop).
#pragma once

#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/instant.h"
#include "common/log/log.h"
#include "common/status.h"
#include "server/authority/instructions.h"
#include "server/authority/run_core.h"
#include "server/authority/run_members.h"
#include "server/authority/run_outbox.h"
#include "server/authority/run_record.h"

namespace paceline::server {

class LateNodes {
 public:
  // All outlive this.
  LateNodes(const RunConfig& config, RunCore& core, RunMembers& members, RunRecord& record,
            Instructions& instructions, RunOutbox& outbox, const Log& log);

  // Whether training can take it. Errors: kFailedPrecondition, saying why not.
  [[nodiscard]] Status may_come(NodeId node) const;
  void let_in(NodeId node, Ticks now);
  // It is ready, and takes part from now on. Not OK: the core refuses it, and it is to go.
  [[nodiscard]] Status begin(NodeId node, Ticks now);
  // Before it took part.
  void lost(NodeId node, const std::string& why);
  // Who is let in and has not become ready in time; the node itself has given up on the other servers by then. And
  // what that is.
  std::vector<NodeId> overdue(Ticks now) const;
  Status too_late() const;

 private:
  const RunConfig& config_;
  RunCore& core_;
  RunMembers& members_;
  RunRecord& record_;
  Instructions& instructions_;
  RunOutbox& outbox_;
  const Log& log_;
  std::vector<Ticks> let_in_at_;  // by node, of who is coming
};

}  // namespace paceline::server
