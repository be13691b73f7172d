// Instructions: what each worker was told last, to go on or to finish, and is told again where it may not have heard
// it. It knows what it has heard (a grant by its clock), and does nothing twice.
//
//   its node comes over another connection   the grant that is not reported, or that it is finished
//   it reports an iteration once more        likewise, from the present state: granted, held or finished
//
// Thread: one at a time (the server's loop).
#pragma once

#include <variant>
#include <vector>

#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/instant.h"
#include "common/sync/actions.h"
#include "common/sync/engine.h"
#include "server/authority/run_outbox.h"
#include "server/authority/run_record.h"

namespace paceline::server {

class Instructions {
 public:
  // All outlive this. `record`: whose loss scales grants say.
  Instructions(const RunConfig& config, const RunRecord& record, RunOutbox& outbox);

  void give(const sync::Grant& grant);
  // It is told that it is held; nothing is kept of that.
  void give(const sync::HeldNotice& held);
  // `is_here`: its node is there to be told.
  void give(const sync::FinishWorker& finish, bool is_here);

  // Of each worker of a node that comes over another connection.
  void repeat(NodeId node, const sync::Engine& engine);
  // Of one whose report the core has taken before. Who has not completed its iteration yet hears when it has.
  void answer_again(WorkerId worker, const sync::Engine& engine, Ticks now);

  // Another process of its node takes its place.
  void forget(WorkerId worker) { of(worker) = {}; }

 private:
  using Instruction = std::variant<std::monostate, sync::Grant, sync::FinishWorker>;
  // Where grants go ahead the one before counts as well.
  struct Given {
    Instruction before;
    Instruction last;
  };
  Given& of(WorkerId worker) { return given_[config_.cluster.cluster().rank_of(worker).value]; }
  void keep(WorkerId worker, Instruction instruction);
  void repeat(WorkerId worker, const sync::Engine& engine);
  void send(const sync::Grant& grant);

  const RunConfig& config_;
  const RunRecord& record_;
  RunOutbox& outbox_;
  std::vector<Given> given_;  // by rank
};

}  // namespace paceline::server
