// Authority: the one place where a run's clocks, threshold, versions, evaluations and end are decided. It owns the
// parts that decide and keep, each in a file of its own, and connects them: messages become events of the
// synchronisation core (run_core.h), its actions messages.
//
//   gathering   until every node has joined, or cluster.nodes.min of them, and every shard holds the initial
//               parameters                                           (run_start.h)
//   training    messages -> events -> actions -> messages            (step_reports.h, authority_actions.cc)
//               checkpoints of what is decided, on the side          (run_saves.h, checkpoints.h)
//   ending, closing, filing, over                                    (run_end.h)
//
// Files are written in the Background: a disk may be slower than any lease. No I/O but through it, the Outbox, the log
// and the RunRecord's curve; time is passed in, so tests need neither sockets nor waiting. Thread: one at a time (the
// server's loop).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/instant.h"
#include "common/live/run_status.h"
#include "common/log/log.h"
#include "common/log/stall_log.h"
#include "common/params/layout.h"
#include "common/pause.h"
#include "common/status.h"
#include "common/sync/engine.h"
#include "common/traffic.h"
#include "common/wire/messages.h"
#include "server/authority/checkpoints.h"
#include "server/authority/decision_record.h"
#include "server/authority/evaluations.h"
#include "server/authority/files_so_far.h"
#include "server/authority/instructions.h"
#include "server/authority/late_nodes.h"
#include "server/authority/mesh_formations.h"
#include "server/authority/node_parameters.h"
#include "server/authority/reconfiguration.h"
#include "server/authority/reduced_steps.h"
#include "server/authority/run_core.h"
#include "server/authority/run_end.h"
#include "server/authority/run_members.h"
#include "server/authority/run_outbox.h"
#include "server/authority/run_outcome.h"
#include "server/authority/run_progress.h"
#include "server/authority/run_record.h"
#include "server/authority/run_saves.h"
#include "server/authority/run_start.h"
#include "server/authority/run_waits.h"
#include "server/authority/step_reports.h"
#include "server/authority/stop_deadline.h"
#include "server/authority/worker_speeds.h"
#include "server/loop/background.h"
#include "server/peers/last_seen.h"
#include "server/peers/peer.h"

namespace paceline::server {

class Authority {
 public:
  // What a run is resumed from: `engine` is valid for its configuration, and the record is its, too.
  struct Resumed {
    CheckpointId from;
    std::uint64_t generation = 2;
    std::int64_t decisions = 0;
    std::uint64_t layout_hash = 0;
    sync::EngineState engine;
    std::optional<std::uint64_t> data_fingerprint = {};
  };
  // Gathering begins now and may take cluster.start_timeout; a resumed run, of which that begins when its
  // shards have read their checkpoint, then goes on without the nodes that have not come. `outbox`,
  // `background` and `log` must outlive the authority, and the authority all that `background` still calls.
  Authority(const RunConfig& config, RunRecord record, Outbox& outbox, Background& background, const Log& log,
            Ticks now, std::optional<Resumed> resumed = {});

  // Whether a process of a node that is not here, or not any more, would be let in now: at the start, and
  // while training goes on (late_nodes.h). Errors: kFailedPrecondition, saying why not.
  [[nodiscard]] Status may_come(NodeId node) const;
  // Whether the run would go on if that node, which is here, were lost now: then another process of it may
  // wait for that.
  bool may_lose(NodeId node) const;
  // The peer has been let in (server/peers/membership.h). While training() the node takes part from its NodeReady
  // on.
  // `data`: what its training data come to; a checkpoint says it.
  void node_joined(NodeId node, const Layout& layout, Ticks now, std::uint64_t incarnation = 0,
                   std::uint64_t data = 0);
  void shard_joined(ShardId shard);
  // The join of a peer of this run was refused, and why: the usual cause of a run that does not begin.
  void join_refused(Peer peer, const std::string& why);

  // The same process of a node goes on over another connection, since the one before broke: it is told again
  // what it may not have heard.
  void node_reconnected(NodeId node);

  // It has said its last word, and nothing is asked of it: it waits to hear how the run ends.
  bool is_done(NodeId node) const {
    return record_.has_report(node) && !evaluations_.schedule().asked_of(node) &&
           !node_parameters_.is_asked(node, engine_.version());
  }

  // A message from a peer that is in. The Status is what the peer is to be told when it was wrong.
  [[nodiscard]] Status handle(Peer from, const wire::Message& message, Ticks now);

  // The peer was silent past its lease, left, was refused for good, or could not be sent to. A node's workers
  // leave the clock table. The end of the run: a shard, and before training begins a node whose loss is
  // (may_lose()).
  void lost(Peer peer, const std::string& why, Ticks now);

  // Whoever starts the nodes says that the program of one has ended, and how ("status 1"): of one that has not joined
  // nobody else could say that it will not come.
  void program_ended(NodeId node, const std::string& how, Ticks now);

  // Time passes: deadlines, held grants, max_seconds.
  void tick(Ticks now);

  // What a node's heartbeat says of its workers' time so far, for status(). Errors: kInvalidArgument it has
  // not as many workers.
  Status on_heartbeat(NodeId from, const wire::Heartbeat& beat);
  // How the run goes now, for progress.csv, when it is time to note that; now and then also what of the
  // results a killed run leaves. `moved`: by shards.
  void note_progress(const Traffic& moved, Ticks now);
  // The process stood still: no worker was slow for that.
  void discount_pause(const Pause& pause);

  // A server has come back and is to take part (reconfigure.h): the run is quiesced and saved, and ends
  // for all servers to go on from there. Asked for again while that is under way it changes nothing. Errors:
  // kUnavailable not yet; kFailedPrecondition never, and why.
  [[nodiscard]] Status reconfigure(const std::string& why, Ticks now);
  // The servers are to go on by themselves, and have been told to; once over() for good.
  bool reconfigures() const { return state_.reconfigures(); }

  // A signal: the orderly end, with the model, but status "stopped".
  void stop(const std::string& reason, Ticks now);
  // A signal: the next version is saved, also where the configuration asks for no checkpoints; then the last
  // state of a run that is stopped is, too.
  void save_checkpoint();
  // Ends without a model, with status "failed": everybody is told why. It is over once that is in the files.
  void fail(const Status& why, Ticks now);

  // A replica's: a file that the run is for and that counts as written, by the word of the one that served,
  // could not be written here. OK: none; said once.
  Status take_missing() { return end_.take_missing(); }
  // It serves by now: the run has failed for that, also where it was over.
  void fail_for_missing(const Status& why, Ticks now);

  bool over() const { return state_.is(Stage::kOver); }
  // How the run went; OK only for status "ok". Meaningful once over().
  const Status& result() const { return state_.result(); }
  bool training() const { return state_.training(); }
  // What is waited for now, and why it does not come (run_waits.h): the start for who is missing, the
  // workers for the slowest, the end for what belongs to it.
  using WaitsFor = server::WaitsFor;
  std::vector<Wait> waits(const LastSeen& last_seen, WaitsFor which = WaitsFor::kAnything) const;
  // What the run says of itself now, but for what only the loop knows (run_shown.h). O(workers).
  RunStatus status(const LastSeen& last_seen, Ticks now) const;

 private:
  using Stage = RunStage;
  using NodeState = RunMembers::NodeState;

  // Messages (authority.cc).
  Status on_shard(ShardId from, const wire::Message& message, Ticks now);
  Status on_node(NodeId from, const wire::Message& message, Ticks now);
  Status on_ready(NodeId node, Ticks now);
  Status on(NodeId from, const wire::StepReport& report, Ticks now);
  Status on(NodeId from, const wire::Peers& peers, Ticks now);
  Status on(NodeId from, const wire::EvaluationReport& report, Ticks now);
  void on_arrival(ShardId from, const wire::GradientArrived& arrived, Ticks now);
  void evict_overdue(Ticks now);

  // The core's actions (authority_actions.cc).
  Status carry_out(const std::vector<sync::Action>& actions, Ticks now);
  void begin_training(Ticks now);
  void apply(const sync::Apply& action, bool is_saved, Ticks now);

  // Who goes (authority_losses.cc).
  void evict(NodeId node, const Status& why, Ticks now);
  // The sender has seen another one go, before that one's lease is over.
  void who_is_gone(NodeId from, const wire::Leave& leave, Ticks now);

  const RunConfig config_;
  RunRecord record_;
  RunOutbox outbox_;
  const Log& log_;
  const std::optional<Resumed> resumed_;

  RunOutcome state_;
  RunCore core_;
  const sync::Engine& engine_;  // the core's
  RunMembers members_;
  WorkerSpeeds speeds_;
  Instructions instructions_;
  DecisionRecord decision_record_;
  StepReports step_reports_;
  RunProgress progress_;
  Checkpoints checkpoints_;
  RunSaves saves_;
  Evaluations evaluations_;
  FilesSoFar files_so_far_;

  RunStart start_;
  LateNodes late_nodes_;
  NodeParameters node_parameters_;
  MeshFormations formations_;
  ReducedSteps steps_;
  StopDeadline stop_deadline_;
  Reconfiguration reconfiguration_;
  RunEnd end_;
};

}  // namespace paceline::server
