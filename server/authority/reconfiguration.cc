#include "server/authority/reconfiguration.h"

#include <cstdint>

#include "server/authority/reconfigure.h"
#include "server/authority/stop_deadline.h"

namespace paceline::server {

Reconfiguration::Reconfiguration(const RunConfig& config, RunCore& core, Checkpoints& checkpoints,
                                 RunSaves& saves, const Evaluations& evaluations, const WorkerSpeeds& speeds,
                                 const Log& log)
    : config_(config),
      core_(core),
      checkpoints_(checkpoints),
      saves_(saves),
      evaluations_(evaluations),
      speeds_(speeds),
      log_(log) {}

Status Reconfiguration::begin(const std::string& why, Ticks now) {
  if (failed_at_ && now - *failed_at_ <= kLeasesBetween * config_.cluster.lease) {
    return unavailable("it was tried a while ago, and will be again");
  }
  log_.info("the run is quiesced, so that all servers can go on together: " + why);
  under_way_.emplace();
  under_way_->why = why;
  under_way_->since = now;
  const bool is_over = advance(now);
  PACELINE_ASSERT(!is_over, "reconfigured before it has quiesced");
  return Status::ok();
}

bool Reconfiguration::advance(Ticks now) {
  const sync::Engine& engine = core_.engine();
  if (!under_way_ || engine.stopping()) return false;
  const auto given_up = [&](const std::string& why) {
    give_up(why, now);
    return false;
  };
  UnderWay& it = *under_way_;
  if (!engine.quiescing()) {
    // Of one version there is one checkpoint.
    if (checkpoints_.under_way() || engine.version() <= checkpoints_.saved()) return false;
    it.since = now;
    const Status asked = core_.step(sync::QuiesceRequested{}, now);
    return asked.is_ok() ? false : given_up(asked.message());
  }
  if (!it.quiesced) {
    const std::int64_t after = (config_.exchange.hidden ? 2 : 1) + engine.max_clock_gap().value;
    const bool too_late = now - it.since > StopDeadline::allowed(config_, speeds_, after);
    return too_late ? given_up("an iteration that is under way does not end") : false;
  }
  if (!evaluations_.idle() || checkpoints_.under_way()) return false;
  if (!it.saved) {
    it.saved = checkpoints_.due_at_stop(engine.version(), now);
    if (!it.saved) return given_up("the state is not to be saved");
    it.version = engine.version();
    it.revision = engine.revision();
    saves_.send_last({.save = true}, now);
    return false;
  }
  const std::optional<CheckpointId> counted = checkpoints_.counted();
  if (!counted || counted->version != it.version || engine.revision() != it.revision) {
    return given_up("the state could not be saved");
  }
  log_.info("all servers go on from the checkpoint of " + to_string(*counted) + ", as a new generation");
  return true;
}

void Reconfiguration::give_up(const std::string& why, Ticks now) {
  log_.warn("the run goes on without the server that has come back, for now: " + why);
  failed_at_ = now;
  under_way_.reset();
  if (core_.engine().quiescing()) core_.step_own(sync::QuiesceEnded{}, now);
}

}  // namespace paceline::server
