// A run handed over to servers that begin anew, since one that had been lost has come back: it comes to rest
// (sync::QuiesceRequested), its state is saved, and all servers go on from that checkpoint as a new
// generation, with the one that has come. Nothing that was acknowledged is lost: at rest every gradient that
// was begun is applied, and all of it is in the checkpoint.
//
//   HandOver           wanted, until there is a version that is not saved yet
//   QuiesceRequested   who is behind catches up with the others, nobody goes further
//   Quiesced           the state is saved, on all shards
//   Saved, all         RunOver{hands_over} to the shards; RunOver{resumable} to the nodes, which wait for the
//                      shards
//   ShardReport, all   each has heard it, over whatever connection: this server is needed no more
//
// What stands in the way (a disk that is full, an iteration that does not end) costs the hand-over, not the
// run: it goes on as before, and says why.
#include <algorithm>

#include "server/authority/authority.h"
#include "server/authority/hand_over.h"

namespace paceline::server {

Status Authority::may_hand_over() const {
  PACELINE_RETURN_IF_ERROR(can_hand_over(config_));
  if (state_.is(Stage::kGathering)) return unavailable("training has not begun");
  if (!state_.is(Stage::kTraining) || engine_.stopping()) return failed_precondition("the run is ending");
  return Status::ok();
}

Status Authority::hand_over(const std::string& why, Ticks now) {
  if (handing_over_) return Status::ok();
  PACELINE_RETURN_IF_ERROR(may_hand_over());
  if (hand_over_failed_at_ && now - *hand_over_failed_at_ <= kLeasesBetween * config_.cluster.lease) {
    return unavailable("it was tried a while ago, and will be again");
  }
  log_.info("the run is brought to rest, so that all servers can go on together: " + why);
  handing_over_.emplace();
  handing_over_->why = why;
  handing_over_->since = now;
  advance_hand_over(now);
  return Status::ok();
}

void Authority::advance_hand_over(Ticks now) {
  if (!handing_over_ || !state_.is(Stage::kTraining) || engine_.stopping()) return;
  HandingOver& it = *handing_over_;
  if (!engine_.quiescing()) {
    // Of one version there is one checkpoint.
    if (checkpoints_.under_way() || engine_.version() <= checkpoints_.saved()) return;
    it.since = now;
    const Status asked = core_.step(sync::QuiesceRequested{}, now);
    if (!asked.is_ok()) give_up_hand_over(asked.message(), now);
    return;
  }
  if (!it.rests) {
    const std::int64_t behind = (config_.exchange.hidden ? 2 : 1) + engine_.max_clock_gap().value;
    const auto allowed = std::max<std::chrono::nanoseconds>(kStopLeases * config_.cluster.lease,
                                                            behind * kStopIterations * speeds_.longest());
    if (now - it.since > allowed) give_up_hand_over("an iteration that is under way does not end", now);
    return;
  }
  if (!evaluations_.idle() || checkpoints_.under_way()) return;
  if (!it.saved) {
    it.saved = checkpoints_.due_at_stop(engine_.version(), now);
    if (!it.saved) return give_up_hand_over("the state is not to be saved", now);
    it.version = engine_.version();
    it.revision = engine_.revision();
    return saves_.send_last({.save = true}, now);
  }
  const std::optional<CheckpointId> counted = checkpoints_.counted();
  if (!counted || counted->version != it.version || engine_.revision() != it.revision) {
    return give_up_hand_over("the state could not be saved", now);
  }
  log_.info("all servers go on from the checkpoint of " + to_string(*counted) + ", as a new generation");
  state_.hand_over(unavailable("the servers go on as a new generation: " + it.why));
  record_.training_over(now);
  state_.enter(Stage::kClosing);
  outbox_.to_shards(wire::RunOver{state_.result().code(), state_.result().message(),
                                 state_.resumable(), state_.hands_over()});
  end_nodes();
  advance_end(now);
}

void Authority::give_up_hand_over(const std::string& why, Ticks now) {
  log_.warn("the run goes on without the server that has come back, for now: " + why);
  hand_over_failed_at_ = now;
  handing_over_.reset();
  if (!engine_.quiescing()) return;
  core_.step_own(sync::QuiesceEnded{}, now);
}

}  // namespace paceline::server
