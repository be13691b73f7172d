// Authority: the one place where a run's clocks, threshold, versions, evaluations and end are decided. It
// owns the synchronisation core (common/sync/engine.h), turns messages into its events and its actions into
// messages.
//
//   gathering   until every node has joined, or cluster.nodes.min of them, and every shard holds the initial
//               parameters
//   training    messages -> events -> actions -> messages            (authority_actions.cc)
//               checkpoints of what is decided, on the side          (checkpoints.h)
//   ending      the final model is retained, fetched, written and evaluated; nodes report
//   closing     shards report and go
//   filing      phases.csv and summary.json are written; nodes are told
//   over        result() says how it went
//
// Every wait of the end is for a peer, and is over when the peer's lease is; a node that lives but does not
// say what it is asked for is waited for kStopLeases, kReportLeases and kEvaluationLeases. Files are written
// in the Background: a disk may be slower than any lease. No I/O but through it, the Outbox, the log and the
// RunRecord's curve; time is passed in, so tests need neither sockets nor waiting. Thread: one at a time (the
// server's loop).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/config/run_config.h"
#include "common/instant.h"
#include "common/live/run_status.h"
#include "common/log/log.h"
#include "common/log/stall_log.h"
#include "common/metric.h"
#include "common/params/layout.h"
#include "common/pause.h"
#include "common/status.h"
#include "common/sync/engine.h"
#include "common/timing/phase_times.h"
#include "common/timing/recent_rate.h"
#include "common/trace/decision_log.h"
#include "common/traffic.h"
#include "common/wire/messages.h"
#include "server/authority/authority_waits.h"
#include "server/authority/checkpoints.h"
#include "server/authority/evaluation.h"
#include "server/authority/final_model.h"
#include "server/authority/formations.h"
#include "server/authority/run_members.h"
#include "server/authority/run_record.h"
#include "server/authority/run_stage.h"
#include "server/authority/worker_speeds.h"
#include "server/background.h"
#include "server/last_seen.h"
#include "server/peer.h"

namespace paceline::server {

class Authority {
 public:
  // How long a node that is alive may take, in leases: for the iteration it is in when the run is stopped,
  // for its report once training is over, which it has at hand, and for one evaluation, which is a pass over
  // the test data.
  static constexpr int kStopLeases = 10;
  // And for that iteration, where iterations are longer, so many times the longest one seen; twice as many where
  // the next one may be granted already (exchange.hidden).
  static constexpr int kStopIterations = 3;
  static constexpr int kReportLeases = 10;
  // For where it is reached in an all-reduce's next formation, which none of its threads that computes has to say.
  static constexpr int kFormLeases = 2;
  static constexpr int kEvaluationLeases = 60;
  // How long a shard that is alive may take to write its part of a checkpoint, and, beyond
  // cluster.start_timeout, to read it: as long as such an evaluation.
  static constexpr int kCheckpointLeases = 60;

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
  // while training goes on (authority_late_joins.cc). Errors: kFailedPrecondition, saying why not.
  [[nodiscard]] Status may_come(NodeId node) const;
  // Whether the run would go on if that node, which is here, were lost now: then another process of it may
  // wait for that.
  bool may_lose(NodeId node) const;
  // The peer has been let in (server/membership.h). While training() the node takes part from its NodeReady
  // on.
  // `data`: what its training data come to; a checkpoint says it.
  void node_joined(NodeId node, const Layout& layout, Ticks now, std::uint64_t incarnation = 0,
                   std::uint64_t data = 0);
  void shard_joined(ShardId shard);
  // The join of a peer of this run was refused, and why: the usual cause of a run that does not begin.
  void join_refused(Peer peer, const std::string& why);

  // The same process of a node goes on over another connection, since the one before broke: it is told again
  // what it may not have heard.
  void node_rejoined(NodeId node);

  // It has said its last word, and nothing is asked of it: it waits to hear how the run ends.
  bool is_done(NodeId node) const { return record_.has_report(node) && !evaluation_.asked_of(node); }

  // A message from a peer that is in. The Status is what the peer is to be told when it was wrong.
  [[nodiscard]] Status handle(Peer from, const wire::Message& message, Ticks now);

  // The peer was silent past its lease, left, was refused for good, or could not be sent to. A node's workers
  // leave the clock table. The end of the run: a shard, and before training begins a node whose loss is
  // (may_lose()).
  void lost(Peer peer, const std::string& why, Ticks now);

  // Time passes: deadlines, held grants, max_seconds.
  void tick(Ticks now);

  // What a node's heartbeat says of its workers' time so far, for status(). Errors: kInvalidArgument it has
  // not as many workers.
  Status heard(NodeId from, const wire::Heartbeat& beat);
  // How the run goes now, for progress.csv, when it is time to note that; now and then also what of the
  // results a killed run leaves.
  void note_progress(const Traffic& moved, Ticks now);
  // What the nodes of an all-reduce have sent each other, as of their last heartbeats.
  Traffic reduced() const;
  // The process stood still: no worker was slow for that.
  void discount_pause(const Pause& pause);

  // A server has come back and is to take part (hand_over.h): the run is brought to rest and saved, and ends
  // for all servers to go on from there. Asked for again while that is under way it changes nothing. Errors:
  // kUnavailable not yet; kFailedPrecondition never, and why.
  [[nodiscard]] Status hand_over(const std::string& why, Ticks now);
  // The servers are to go on by themselves, and have been told to; once over() for good.
  bool hands_over() const { return hands_over_; }

  // A signal: the orderly end, with the model, but status "stopped".
  void stop(const std::string& reason, Ticks now);
  // A signal: the next version is saved, also where the configuration asks for no checkpoints; then the last
  // state of a run that is stopped is, too.
  void save_checkpoint();
  // Ends without a model, with status "failed": everybody is told why. It is over once that is in the files.
  void fail(const Status& why, Ticks now);

  // A replica's: a file that the run is for and that counts as written, by the word of the one that served,
  // could not be written here. OK: none; said once.
  Status take_missing() { return std::exchange(missing_, Status::ok()); }
  // It serves by now: the run has failed for that, also where it was over.
  void fail_for_missing(const Status& why, Ticks now);

  bool over() const { return stage_ == Stage::kOver; }
  // How the run went; OK only for status "ok". Meaningful once over().
  const Status& result() const { return result_; }
  bool training() const { return stage_ == Stage::kTraining; }
  // What is waited for now, and why it does not come (authority_waits.h): the start for who is missing, the
  // workers for the slowest, the end for what belongs to it.
  using WaitsFor = server::WaitsFor;
  std::vector<Wait> waits(const LastSeen& last_seen, WaitsFor which = WaitsFor::kAnything) const;
  // What the run says of itself now, but for what only the loop knows (authority_status.cc). O(workers).
  RunStatus status(const LastSeen& last_seen, Ticks now) const;

 private:
  using Stage = RunStage;
  using NodeState = RunMembers::NodeState;
  // Messages (authority.cc).
  Status on_shard(ShardId from, const wire::Message& message, Ticks now);
  Status on_node(NodeId from, const wire::Message& message, Ticks now);
  Status on(NodeId from, const wire::StepReport& report, Ticks now);
  Status on(NodeId from, const wire::EvaluationReport& report, Ticks now);
  Status on(NodeId from, const wire::NodeReport& report);
  Status take(wire::StepReport report, Ticks now);
  void on_arrival(ShardId from, const wire::GradientArrived& arrived, Ticks now);
  void expel(NodeId node, const Status& why, Ticks now);
  void begin_if_gathered(Ticks now);
  bool warms_up() const;
  // As people are told of them: mini-batches.
  std::int64_t iterations_applied() const {
    return config_.train.iterations_in(engine_.iterations_applied());
  }
  void begin_fresh(Ticks now);

  // What is said again (authority_again.cc).
  using Instruction = std::variant<std::monostate, sync::Grant, sync::FinishWorker>;
  void tells(WorkerId worker, Instruction instruction);
  void answer_again(WorkerId worker, Ticks now);
  void instruct_again(WorkerId worker);

  // Who is connected to whom, and goes on without whom (authority_formations.cc).
  Status on(NodeId from, const wire::Peers& said, Ticks now);
  void end_formation(Ticks now);
  void say_formation_again(NodeId node);
  void say_who_is_waited_for(Ticks now);
  void form(Ticks now);
  void check_forming(Ticks now);
  bool goes_on() const;
  void go_on_without(NodeId node, Ticks now);
  bool awaits_others(const wire::StepReport& report) const;
  void take_steps(Ticks now);
  void take_last_step(NodeId node, Ticks now);
  void stop_short_of_workers(std::int64_t workers, Ticks now);

  // Who comes late, or back (authority_late_joins.cc).
  void say_admitted(NodeId node, ShardId shard);
  void admit_late(NodeId node, Ticks now);
  void expel_who_is_not_welcomed(Ticks now);
  Status on_ready(NodeId node, Ticks now);
  void lost_before_ready(NodeId node, const std::string& why);
  void lost_before_start(NodeId node, const std::string& why, Ticks now);

  // The begin of a resumed run (authority_resume.cc).
  std::chrono::nanoseconds gathering_timeout() const;
  bool may_be_resumed_after(const Status& why) const;
  bool may_go_on() const;
  void lost_before_resume(NodeId node, const std::string& why, Ticks now);
  void go_on(Ticks now);
  void leave_out(NodeId node, const std::string& why);

  // The core's actions (authority_actions.cc).
  Status step(const sync::Event& event, Ticks now);
  void carry_out(const sync::Started& action, Ticks now);
  void carry_out(const sync::Apply& action, Ticks now);
  void carry_out(const sync::Grant& action, Ticks now);
  void carry_out(const sync::Held& action, Ticks now);
  void carry_out(const sync::VersionAdvanced& action, Ticks now);
  void carry_out(const sync::ThresholdChanged& action, Ticks now);
  void carry_out(const sync::PolicySwitched& action, Ticks now);
  void carry_out(const sync::WindowClosed& action, Ticks now);
  void carry_out(const sync::Discard& action, Ticks now);
  void carry_out(const sync::FinishWorker& action, Ticks now);
  void carry_out(const sync::RunFailed& action, Ticks now);
  void carry_out(const sync::AllFinished& action, Ticks now);
  void carry_out(const sync::Quiesced& action, Ticks now);
  void carry_out(const sync::Reject& action, Ticks now);
  void send_decision(wire::ApplyDecision decision);
  std::vector<NodeId> first_group() const;
  void keep_again(NodeId node);
  void keep_for_evaluation(Version version);
  const sync::Apply* apply_to_save(Ticks now);
  void log_plan() const;
  void begin_checkpoint(Ticks now);
  void say_batch_sizes();
  void say_skipped(const wire::StepReport& report);
  std::string skips_so_far() const;

  // Servers that go on anew with one that has come back (authority_hand_over.cc).
  Status may_hand_over() const;
  void advance_hand_over(Ticks now);
  void give_up_hand_over(const std::string& why, Ticks now);

  // The end (authority_end.cc).
  void advance_end(Ticks now);
  void ask_state(Version version);
  bool final_state_comes();
  // Its last state is to be in a checkpoint: at once, beside the model, where the run has not come to its own
  // end; else behind the model, for which there is to be room first.
  bool saves_last_state() const {
    return checkpoints_.enabled() && (run_status_ == "stopped" || nobody_left_);
  }
  bool saves_behind_model() const { return checkpoints_.enabled() && run_status_ == "ok" && !nobody_left_; }
  // It has failed, and other servers may go on with it.
  bool ends_for_now() const {
    return resumable_ || (nobody_left_ && run_status_ == "failed" && checkpoints_.enabled());
  }
  void say_how_to_go_on() const;
  bool model_is_written();
  bool last_state_is_saved(Ticks now);
  void on_model_written(const Status& written, Ticks now);
  void not_evaluated(Version version, const std::string& why);
  void file();
  void write_results();
  Background::Here needed_here();
  void write_so_far(Ticks now);
  void on_filed(const Status& written);

  // The trace (authority_trace.cc).
  void on_checkpoint_over(Ticks now);
  void write_trace();
  // Tells the nodes that are still here how the run went, once.
  void end_nodes();
  // Nothing that is still said changes how the run went.
  bool concluded() const { return stage_ >= Stage::kFiling; }
  void check_silence(Ticks now);
  void check_stop(Ticks now);
  void ask_evaluation(Ticks now);
  bool reports_are_in() const;

  // What it says of itself (authority_status.cc).
  std::string doing(WorkerId worker) const;
  std::string waits_for(WorkerId worker, const std::string& slowest) const;

  void to_node(NodeId node, wire::Body body) { outbox_.send(Peer::of(node), {std::move(body), {}}); }
  void to_shards(const wire::Body& body);

  const RunConfig config_;
  RunRecord record_;
  Outbox& outbox_;
  Background& background_;
  const Log& log_;
  Ticks gathering_since_;  // of a resumed run, once its last shard has read its checkpoint: that
  const std::optional<Resumed> resumed_;
  Stage stage_ = Stage::kGathering;
  sync::Engine engine_;
  std::optional<trace::DecisionLog> trace_;   // run.trace
  std::vector<sync::Action> actions_;         // of the event being taken
  std::uint64_t plan_change_ = 0;             // what is in the log of it
  const sync::Apply* saved_apply_ = nullptr;  // of those the one whose state is to be saved
  Status rejected_;                           // of the event being taken

  RunMembers members_;
  Formations formations_;
  wire::Peers formed_;  // the newest one, as its nodes were told
  Ticks forming_since_;
  std::string why_ended_;  // the newest formation, as a node has said
  // All-reduce. Of the step under way, by rank: who has made it; and who has been lost since it began.
  struct Stepped {
    wire::StepReport report;
    Ticks since;
    Ticks next_notice;
  };
  std::vector<std::optional<Stepped>> stepped_;
  std::vector<NodeId> lost_in_step_;
  std::map<NodeId, Traffic> reduced_;
  NodeId final_speaker_{0};
  int lost_at_end_ = 0;       // before the last state was there
  bool has_stepped_ = false;  // a whole step, of this generation
  Layout layout_;
  std::optional<std::uint64_t> data_fingerprint_;  // of the nodes, which have the same

  std::int64_t sequence_ = 0;  // of the next decision
  Version decided_;            // of the last decision
  Ticks first_grant_;
  // By rank: what it was told last, for one who may not have heard it; where grants go ahead the one before as well.
  struct Told {
    Instruction before;
    Instruction last;
  };
  std::vector<Told> told_;
  std::optional<Ticks> stopping_since_;
  Ticks ending_since_;
  EvaluationSchedule evaluation_;
  Ticks evaluation_asked_at_;  // of the one under way
  double so_far_from_ = 0.0;   // seconds of training at which this generation began: write_so_far()
  double so_far_due_ = 0.0;
  bool writing_so_far_ = false;
  bool so_far_failed_ = false;
  std::string filed_as_;            // the run's status, as summary.json says it
  Status missing_;                  // take_missing()
  DurationBaseline evaluations_;    // until its report
  Version evaluated_ = kNoVersion;  // last
  Checkpoints checkpoints_;
  FinalModel model_;
  enum class ModelFile { kMissing, kBeingWritten, kWritten };
  ModelFile model_file_ = ModelFile::kMissing;
  bool saved_behind_model_ = false;  // or tried to

  // Nodes are connected to each other, and none can be done without: an all-reduce, a pipeline, groups of batch norm.
  std::string why_needed(NodeId node) const;
  // The sender has seen another one go, before that one's lease is over.
  void who_is_gone(NodeId from, const wire::Leave& leave, Ticks now);
  bool nodes_talk() const { return nodes_are_connected(config_); }
  // All-reduce: the nodes hold the parameters, and give them to the shard in the end.
  bool reduces() const { return config_.exchange.kind == ExchangeKind::kAllreduce; }
  Version state_here_ = kNoVersion;  // what of it the shard has
  bool parameters_are_here() const { return state_here_ == engine_.version(); }

  struct HandingOver {
    std::string why;
    Ticks since;         // wanted; then: asked of the core
    bool rests = false;  // nothing is under way
    bool saved = false;  // and that state is saved, or being saved: this one
    Version version;
    Revision revision;
  };
  std::optional<HandingOver> handing_over_;
  std::optional<Ticks> hand_over_failed_at_;
  bool hands_over_ = false;

  std::string run_status_ = "ok";  // "ok", "stopped", "failed", "invalid"
  bool nobody_left_ = false;       // training ended with its last node
  bool resumable_ = false;         // it has failed, and new servers could go on from a checkpoint
  Status result_;                  // not OK: why the run is not ok
  // What it says of itself.
  CountsBefore before_;
  Revision revision_;  // what the last decision led to
  Metric trained_;     // of the iterations reported, of this generation
  RecentRate iteration_rate_;
  RecentRate sample_rate_;
  WorkerSpeeds speeds_;
};

}  // namespace paceline::server
