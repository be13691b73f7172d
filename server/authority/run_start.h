// RunStart: the begin of a run, until who is to be there has come. A new one begins with whoever is there by then;
// those beyond cluster.nodes.min come late, all at once.
//
// A resumed one goes on with those who were there at the save: with all of them as soon as all have joined, or with
// those who have when cluster.start_timeout is over, which begins when the last shard has read its checkpoint. Who had
// been lost before takes part again if it joins before that.
//
// Worked example: nodes 0 to 2, of which 2 was lost before the save. 0 and 1 join -> training goes on, without 2. Or:
// 0 and 2 join, and nothing else for start_timeout -> node 1 is lost, training goes on with 0 and 2.
//
// Thread: one at a time (the server's loop).
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/instant.h"
#include "common/log/log.h"
#include "common/status.h"
#include "server/authority/run_core.h"
#include "server/authority/run_members.h"
#include "server/authority/run_outbox.h"
#include "server/authority/run_outcome.h"
#include "server/authority/run_record.h"
#include "server/loop/background.h"

namespace paceline::server {

// Of a run whose nodes are connected to each other: an all-reduce, a pipeline, groups of batch norm.
// `has_stepped`: a whole step has been made since it began or went on.
std::string why_needed(const RunConfig& config, NodeId node, bool has_stepped);

class RunStart {
 public:
  enum class Of { kNewRun, kResumed };
  using Evict = std::function<void(NodeId node, const Status& why, Ticks now)>;
  // It begins now. All outlive this. `evict`: the core refuses a node; it is no longer there when that returns.
  RunStart(const RunConfig& config, Of which, RunCore& core, RunMembers& members, RunOutcome& state,
           RunRecord& record, RunOutbox& outbox, Background& background, const Log& log, Ticks now,
           Evict evict);

  // Somebody has come: training begins if that was the last one.
  void begin_if_gathered(Ticks now);
  // The shard has initial parameters, or has read its checkpoint.
  void ready(ShardId shard, Ticks now);
  // A node that had joined, or was to, is lost before training begins. Not OK: there will be no run, and why.
  [[nodiscard]] Status lose(NodeId node, const std::string& why, Ticks now);
  // The program of a node that has not joined has ended: nobody need wait. Not OK: as there.
  [[nodiscard]] Status never_comes(NodeId node, const std::string& why, Ticks now);
  bool may_lose(NodeId node) const;
  // Time passes: a resumed run may go on. Not OK: it has waited long enough.
  [[nodiscard]] Status check(Ticks now);

 private:
  bool resumes() const { return which_ == Of::kResumed; }
  std::chrono::nanoseconds timeout() const;
  bool warms_up() const;
  bool may_go_on() const;
  void begin(Ticks now);
  void go_on(Ticks now);
  Status lost_before_resume(NodeId node, const std::string& why, Ticks now);
  void exclude(NodeId node, const std::string& why);

  const RunConfig& config_;
  const Of which_;
  RunCore& core_;
  RunMembers& members_;
  RunOutcome& state_;
  RunRecord& record_;
  RunOutbox& outbox_;
  Background& background_;
  const Log& log_;
  const Evict evict_;
  Ticks since_;  // of a resumed run, once its last shard has read its checkpoint: that
};

}  // namespace paceline::server
