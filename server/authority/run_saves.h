// RunSaves: which decision's state becomes a checkpoint, and what the authority itself saves of that moment: the core,
// the run's record, what the nodes train with. What becomes of a checkpoint is in checkpoints.h.
//
// Thread: one at a time (the server's loop).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/instant.h"
#include "common/params/layout.h"
#include "common/sync/actions.h"
#include "server/authority/checkpoints.h"
#include "server/authority/evaluation.h"
#include "server/authority/run_core.h"
#include "server/authority/run_outbox.h"
#include "server/authority/run_outcome.h"
#include "server/authority/run_record.h"

namespace paceline::server {

class RunSaves {
 public:
  // All outlive this. `data`: what the training data of a resumed run came to.
  RunSaves(RunCore& core, const RunOutcome& state, RunRecord& record, RunOutbox& outbox,
           Checkpoints& checkpoints, std::optional<std::uint64_t> data);
  RunSaves(const RunSaves&) = delete;

  // What a node that joins has, all of them the same: the parameters' layout, and what its training data come to.
  void nodes_have(const Layout& layout, std::uint64_t data);
  const Layout& layout() const { return layout_; }

  // Of what an event has led to, the decision whose state is to be saved; begin() is to be called after all of it.
  // The core is where it will be once all is carried out, so only the last decision can be saved together with it.
  const sync::Apply* due(const std::vector<sync::Action>& actions, const EvaluationSchedule& evaluations,
                         Ticks now);
  // After the decision whose state the shards are to save.
  void begin(Ticks now);

  // The state as it is goes to all shards as a decision that applies nothing.
  struct Last {
    bool retain = false;
    bool save = false;
  };
  void send_last(Last what, Ticks now);

 private:
  RunCore& core_;
  const RunOutcome& state_;
  RunRecord& record_;
  RunOutbox& outbox_;
  Checkpoints& checkpoints_;
  Layout layout_;
  std::optional<std::uint64_t> data_;
};

}  // namespace paceline::server
