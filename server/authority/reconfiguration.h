// Reconfiguration: a run reconfigured with servers that begin anew, since one that had been lost has come back: it
// comes to rest (sync::QuiesceRequested), its state is saved, and all servers go on from that checkpoint as a new
// generation, with the one that has come. Nothing that was acknowledged is lost: at rest every gradient that was begun
// is applied, and all of it is in the checkpoint.
//
//   Reconfigure           wanted, until there is a version that is not saved yet
//   QuiesceRequested   who is behind catches up with the others, nobody goes further
//   Quiesced           the state is saved, on all shards
//   Saved, all         RunOver{reconfigures} to the shards; RunOver{resumable} to the nodes, which wait for the shards
//   ShardReport, all   each has heard it, over whatever connection: this server is needed no more
//
// What stands in the way (a disk that is full, an iteration that does not end) costs the reconfiguration, not the run:
// it goes on as before, and says why.
//
// Thread: one at a time (the server's loop).
#pragma once

#include <optional>
#include <string>

#include "common/assert.h"
#include "common/clock.h"
#include "common/config/run_config.h"
#include "common/instant.h"
#include "common/log/log.h"
#include "common/status.h"
#include "server/authority/checkpoints.h"
#include "server/authority/evaluations.h"
#include "server/authority/run_core.h"
#include "server/authority/run_saves.h"
#include "server/authority/worker_speeds.h"

namespace paceline::server {

class Reconfiguration {
 public:
  // All outlive this.
  Reconfiguration(const RunConfig& config, RunCore& core, Checkpoints& checkpoints, RunSaves& saves,
                  const Evaluations& evaluations, const WorkerSpeeds& speeds, const Log& log);

  bool under_way() const { return under_way_.has_value(); }
  // Why it is wanted, while it is under way.
  const std::string& why() const {
    PACELINE_ASSERT(under_way_, "no reconfiguration is under way");
    return under_way_->why;
  }

  // While training goes on and nothing is under way. The core is asked to quiesce as soon as it can. Errors:
  // kUnavailable not yet.
  [[nodiscard]] Status begin(const std::string& why, Ticks now);
  // The core has quiesced. What follows comes with the next advance(): this is in the middle of a step.
  void quiesced() {
    PACELINE_ASSERT(under_way_, "the core was quiesced for no reconfiguration");
    under_way_->quiesced = true;
  }
  // While training goes on. True: all servers have the state, and are to go on from it.
  bool advance(Ticks now);

 private:
  struct UnderWay {
    std::string why;
    Ticks since;            // wanted; then: asked of the core
    bool quiesced = false;  // nothing is under way
    bool saved = false;     // and that state is saved, or being saved: this one
    Version version;
    Revision revision;
  };
  void give_up(const std::string& why, Ticks now);

  const RunConfig& config_;
  RunCore& core_;
  Checkpoints& checkpoints_;
  RunSaves& saves_;
  const Evaluations& evaluations_;
  const WorkerSpeeds& speeds_;
  const Log& log_;
  std::optional<UnderWay> under_way_;
  std::optional<Ticks> failed_at_;
};

}  // namespace paceline::server
