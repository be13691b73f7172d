// Engine: the synchronisation core, the one place where clocks, threshold, LPR and the contributors of a
// clock are decided. A pure state machine: events in, actions out. The authority (shard 0's process), the
// simulator and the tests drive the very same code; the same events in the same order give the same actions.
//
// One iteration, worker 0.0 at clock 4 under SSP with s = 1, slowest worker 0.1 at clock 3, two shards:
//   GradientArrived{shard 0, 0.0, 4}                        nothing: shard 1 does not hold it yet
//   StepReported{0.0, 4}                                    nothing
//   GradientArrived{shard 1, 0.0, 4}                        its clock is 5; 5 - 3 > 1: held
//   ... the same three for 0.1, clock 3                     Apply{0.0, 0.1 stamped 3}, VersionAdvanced{4},
//                                                           Grant{0.1, clock 4, min_version 3},
//                                                           Grant{0.0, clock 5, min_version 4}
//
// docs/SYNC.md has the rules in full: grants, application, policies, membership. The path of a message is in
// engine.cc, grants ahead in engine_ahead.cc, who takes part in engine_membership.cc, a checkpoint's state in
// engine_state.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/instant.h"
#include "common/status.h"
#include "common/sync/actions.h"
#include "common/sync/batch_plan.h"
#include "common/sync/clock_table.h"
#include "common/sync/engine_config.h"
#include "common/sync/engine_state.h"
#include "common/sync/events.h"
#include "common/sync/held_gradients.h"
#include "common/sync/held_grants.h"
#include "common/sync/lpr.h"
#include "common/sync/policy.h"
#include "common/sync/running_iteration.h"
#include "common/sync/skip_watch.h"
#include "common/sync/work_share.h"

namespace paceline::sync {

// Thread: one.
class Engine {
 public:
  // `config` is valid (validate()); anything else is our own bug.
  explicit Engine(EngineConfig config);

  // The engine of a resumed run, a new generation: no clock is below or above `state`'s version, nothing is
  // held, and what `state` says is left is to be done. Nobody is there yet. Training begins when every node
  // that was there at the save has joined with all its threads, or was reported Lost, and at least one has
  // joined; a node that had been lost before may join, and is one like the others if it does so before that.
  // The stream of Apply actions goes on behind `state`'s version and revision. The times that step() is
  // given begin anew.
  // Errors: what validate(state, config) says. `config` is valid.
  static Result<Engine> resumed(EngineConfig config, const EngineState& state);

  // What a checkpoint of the present decision, version() and revision(), must hold. Training has begun.
  // Between two steps, at any time; O(workers + what is held, or was left undone).
  EngineState state() const;

  // Takes one event at time `now` (never smaller than at the call before) and appends what follows from it to
  // `actions`, in the order in which it is to be carried out. A wrong event gives one Reject and changes
  // nothing.
  void step(const Event& event, Ticks now, std::vector<Action>& actions);

  const EngineConfig& config() const { return config_; }

  // --- the state of the run, for reports, the log and the tests ---
  bool started() const { return started_; }
  bool finished() const { return finished_; }
  // Nobody is granted anything any more: a stop was asked for, or something was not finite.
  bool stopping() const { return stop_reason_.has_value(); }
  // Coming to rest, or at rest (QuiesceRequested).
  bool quiescing() const { return quiesces_at_.has_value(); }
  // The clock of a worker of this run, live or not.
  Clock clock_of(WorkerId worker) const;
  bool is_live(WorkerId worker) const;
  bool is_held(WorkerId worker) const;
  // That a worker of this run is held, as it would be announced at `now`; nothing where it is not.
  std::optional<Held> held_now(WorkerId worker, Ticks now) const;
  // Whom the held ones wait for: the slowest live worker, the first of them in worker order. There is one.
  WorkerId waited_for() const;
  // The threshold that a grant to this worker would have now.
  Threshold threshold_for(WorkerId worker) const {
    return policy_->threshold_for(config_.cluster.rank_of(worker), clock_of(worker));
  }
  // What is known of the iteration that a worker of this run is in; nothing while it is in none.
  struct Iteration {
    Clock clock;  // its timestamp: below clock_of() where it is late (backup)
    bool reported = false;
    std::uint64_t lacking = 0;   // bit k: shard k does not hold its gradient whole
    bool computes_next = false;  // reported, and the next is granted ahead and not reported
  };
  std::optional<Iteration> iteration_of(WorkerId worker) const;
  // Whether a worker of this run has been granted the iteration stamped `clock`, and has not reported it.
  bool awaits_report(WorkerId worker, Clock clock) const;
  // The smallest clock of the live workers; when there are none, the version.
  Clock min_clock() const;
  Version version() const { return version_; }
  Revision revision() const { return revision_; }
  Threshold threshold() const { return policy_->threshold(); }
  std::int64_t iterations_applied() const { return revision_.value; }
  std::int64_t iterations_skipped() const { return skipped_; }
  // Gradients that came too late, under backup: computed, or still being computed, for nothing.
  std::int64_t iterations_dropped() const { return dropped_; }
  // Begun by a worker that was lost before its gradient was whole. Others do them again, where anybody is
  // left to and the workers are not fixed (work_share.h).
  std::int64_t iterations_lost() const { return lost_; }
  // Of a run that was not stopped and is over: how many of its iterations nobody has done. A lost worker left
  // them when all others had been told that nothing is left, or where the workers are fixed. 0 before.
  std::int64_t iterations_undone() const;
  // Who shares the iterations out among them, and from which clock on (even_share.h): for the log. A change
  // of 0, where shares are not of that kind or nobody has asked yet.
  std::uint64_t plan_change() const { return share_.newest_change(); }
  EvenShare::Newest plan() const { return share_.newest(); }
  // The largest clock - min clock at a grant, and after any clock moved (docs/SYNC.md, The one rule).
  Staleness max_grant_gap() const { return max_grant_gap_; }
  Staleness max_clock_gap() const { return max_clock_gap_; }
  // How gradients are applied from here on.
  ApplyMode apply_mode() const { return apply_; }
  // A number that grows with everything the engine remembers; for the test that a long run grows no memory.
  std::size_t state_size() const;

 private:
  // kLate: it is in an iteration whose clock has closed without it; its own clock has moved on (backup).
  enum class Phase : std::uint8_t { kAbsent, kJoined, kRunning, kLate, kHeld, kFinished, kGone };
  // Whose turn it is next is anybody's guess, so a step waits for its worker's entry to come from memory:
  // once, for the two cache lines that a processor fetches together.
  struct alignas(128) Worker {
    explicit Worker(std::uint32_t shards) : running(shards) {}
    Phase phase = Phase::kAbsent;
    bool fresh = false;           // it came while training went on, and has not been granted anything
    bool held = false;            // kRunning, where grants go ahead: its worker waited for this one
    std::uint32_t staleness = 0;  // of its last gradient that was decided
    Clock clock;
    RunningIteration running;  // kRunning, kLate
    // kHeld: the floor that releases it (kRunning: see Ahead); kLate: the stamp of `running`; kGone: the first that it
    // never had.
    Clock needed;
    Ticks since;        // kRunning: it was granted; kHeld: it asked
    Ticks next_notice;  // kHeld
  };
  static_assert(sizeof(Worker) == 128);
  // Grants ahead: of a worker in kRunning, the iteration behind the one that it is in.
  struct Ahead {
    explicit Ahead(std::uint32_t shards) : running(shards) {}
    enum class Phase : std::uint8_t { kNone, kAsked, kGranted };
    Phase phase = Phase::kNone;
    Clock needed;                   // kAsked: the floor that releases it
    std::optional<Ticks> reported;  // kAsked: the iteration before was, and the worker waits
    bool held = false;              // kGranted: it did
    RunningIteration running;       // kGranted
  };

  Status on(const Joined& event);
  Status on(const GradientArrived& event);
  Status on(const StepReported& event);
  Status on(const Lost& event);
  Status on(const StopRequested& event);
  Status on(const QuiesceRequested& event);
  Status on(const QuiesceEnded& event);
  Status on(const Tick& event);

  void resume(const EngineState& state);
  IterationRanges left() const;

  // A worker's message about the iteration it is in, checked: who, and stamped with the clock it was granted.
  Status check_running(WorkerId worker, Clock clock, const char* what) const;
  bool all_joined(NodeId node) const;
  bool may_begin() const;
  void begin_training();
  Status come_late(Rank rank, const std::string& who);
  void after_message(Rank rank, Clock clock);
  void fail(const std::string& reason);
  void complete(Rank rank);
  void note_clock_gap();
  void contribute(Rank rank);
  Contributor contribution_of(Rank rank) const;
  void depart(Rank rank);
  void stop(const std::string& reason);
  Clock stops_at(Rank rank) const;
  void ask(Rank rank);
  void grant(Rank rank);
  void give(Rank rank, Clock clock, Version least, std::chrono::nanoseconds held);
  bool granted_ahead(Rank rank) const;
  RunningIteration& iteration(Rank rank, Clock clock);
  void ask_ahead(Rank rank);
  void grant_ahead(Rank rank);
  void forget_ahead(Rank rank);
  void promote(Rank rank);
  void go_on(Rank rank);
  void depart_running(Rank rank);
  void finish(Rank rank);
  void close_without_late();
  void advance_version();
  void advance_policy();
  void turn_eager();
  void apply(ClockContributions contributions);
  ApplyMode apply_of_stage() const;
  CombineMode combine() const;
  void settle();
  void enqueue_held(Rank rank);
  void requeue_all();
  void look_for_rest();
  Clock floor() const;
  Clock needed_floor(Rank rank, Clock clock) const;

  Worker& at(Rank rank) { return workers_[rank.value]; }
  const Worker& at(Rank rank) const { return workers_[rank.value]; }
  WorkerId id(Rank rank) const { return config_.cluster.worker_at(rank); }
  static bool in_iteration(const Worker& w) { return w.phase == Phase::kRunning || w.phase == Phase::kLate; }
  // Of the iteration it is in, else where it stands.
  static Clock stamp_of(const Worker& w) { return w.phase == Phase::kLate ? w.needed : w.clock; }
  static bool live(const Worker& w) { return in_iteration(w) || w.phase == Phase::kHeld; }
  void emit(Action action) { out_->push_back(std::move(action)); }

  const EngineConfig config_;
  const std::int64_t per_clock_;  // gradients_per_clock()
  std::unique_ptr<Policy> policy_;
  ApplyMode apply_;              // of the stage in force
  std::vector<Worker> workers_;  // by rank
  std::vector<Ahead> ahead_;     // likewise, where grants go ahead
  ClockTable clocks_;
  HeldGrants held_;
  HeldGradients gradients_;     // versioned
  ClockContributions arrived_;  // eager: decided in this step, not emitted yet
  LprTracker lpr_;
  WorkShare share_;
  BatchPlan batches_;

  std::uint32_t nodes_ready_ = 0;  // before training began: have joined with all threads
  // A resumed run: who was there at the save and has not come yet. None: it is not resumed.
  std::optional<std::set<NodeId>> awaited_;
  Version begins_;  // that this generation began with: nobody has anything older
  bool started_ = false;
  bool finished_ = false;
  bool shares_done_ = false;  // somebody did its share to the end
  std::optional<std::string> stop_reason_;
  std::vector<Clock>
      groups_stop_at_;  // of each group, once a stop was asked for; empty: wherever a worker is
  bool failed_ = false;
  std::optional<Clock>
      quiesces_at_;        // QuiesceRequested: nobody begins an iteration with this stamp, or later
  bool quiesced_ = false;  // and that has been reached
  Clock highest_;          // the largest clock anybody reached
  Version version_;
  Revision revision_;
  Revision version_begins_;  // the first revision of version_
  std::int64_t skipped_ = 0;
  SkipWatch skips_;
  std::int64_t dropped_ = 0;
  std::int64_t lost_ = 0;
  Staleness max_grant_gap_;
  Staleness max_clock_gap_;

  Ticks now_;                           // of the step being taken
  std::vector<Action>* out_ = nullptr;  // of the step being taken
};

}  // namespace paceline::sync
