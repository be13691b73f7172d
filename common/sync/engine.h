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
// docs/SYNC.md has the rules in full: grants, application, policies, membership. What is kept where: workers and
// the messages about their iterations in worker_table.h, who may begin what in grants.h, what is applied in
// update_sequence.h. The Engine connects them: the path of a message is in engine.cc, who takes part in
// engine_membership.cc, a checkpoint's state in engine_state.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/instant.h"
#include "common/status.h"
#include "common/sync/actions.h"
#include "common/sync/engine_config.h"
#include "common/sync/engine_parts.h"
#include "common/sync/engine_state.h"
#include "common/sync/events.h"
#include "common/sync/gathering.h"
#include "common/sync/grants.h"
#include "common/sync/skip_watch.h"
#include "common/sync/update_sequence.h"

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
  // Where nobody was there, every node of the cluster is waited for.
  // The stream of Apply actions goes on after `state`'s version and revision. The times that step() is
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

  const EngineConfig& config() const { return run_->config; }

  // --- the state of the run, for reports, the log and the tests ---
  bool started() const { return run_->started; }
  bool finished() const { return run_->finished; }
  // Nobody is granted anything any more: a stop was asked for, or something was not finite.
  bool stopping() const { return run_->halt.stopping(); }
  // Quiescing, or quiesced (QuiesceRequested).
  bool quiescing() const { return run_->halt.quiescing(); }
  // The clock of a worker of this run, live or not.
  Clock clock_of(WorkerId worker) const { return run_->workers[run_->workers.rank_of(worker)].clock; }
  bool is_live(WorkerId worker) const;
  bool is_held(WorkerId worker) const;
  // That a worker of this run is held, as it would be announced at `now`; nothing where it is not.
  std::optional<HeldNotice> held_now(WorkerId worker, Ticks now) const;
  // What is known of the iteration that a worker of this run is in; nothing while it is in none.
  std::optional<WorkerTable::Iteration> iteration_of(WorkerId worker) const {
    return run_->workers.iteration_of(run_->workers.rank_of(worker));
  }
  // Whether a worker of this run has been granted the iteration stamped `clock`, and has not reported it.
  bool awaits_report(WorkerId worker, Clock clock) const {
    return run_->workers.awaits_report(run_->workers.rank_of(worker), clock);
  }
  // The smallest clock of the live workers; when there are none, the version.
  Clock min_clock() const;
  Version version() const { return updates_->version(); }
  Revision revision() const { return updates_->revision(); }
  Threshold threshold() const { return run_->policy->threshold(); }
  std::int64_t iterations_applied() const { return updates_->revision().value; }
  std::int64_t iterations_skipped() const { return updates_->skipped(); }
  // Gradients that came too late, under backup: computed, or still being computed, for nothing.
  std::int64_t iterations_dropped() const { return dropped_; }
  // Begun by a worker that was lost before its gradient was whole. Others do them again, where anybody is
  // left to and the workers are not fixed (work_share.h).
  std::int64_t iterations_lost() const { return lost_; }
  // Who shares the iterations out among them, and from which clock on (even_share.h): for the log. A change
  // of 0, where shares are not of that kind or nobody has asked yet.
  std::uint64_t plan_change() const { return run_->share.newest_change(); }
  EvenShare::Newest plan() const { return run_->share.newest(); }
  // The largest clock - min clock at a grant, and after any clock moved (docs/SYNC.md, The one rule).
  Staleness max_grant_gap() const { return grants_->max_gap(); }
  Staleness max_clock_gap() const { return max_clock_gap_; }
  // How gradients are applied from here on.
  ApplyMode apply_mode() const { return updates_->apply_mode(); }
  // A number that grows with everything the engine remembers; for the test that a long run grows no memory.
  std::size_t state_size() const;

 private:
  Status handle(const Event& event);
  Status join(WorkerId worker);
  void begin();
  Status come_late(Rank rank, const std::string& who);
  Status lose(NodeId node);
  void depart(Rank rank);
  void take_message(Rank rank, Clock clock);
  void complete(Rank rank);
  void close_without_late();
  void advance_version();
  void propagate();

  // Each apart: they refer to each other, and the Engine can be moved.
  std::unique_ptr<EngineParts> run_;
  std::unique_ptr<UpdateSequence> updates_;
  std::unique_ptr<Grants> grants_;
  Gathering gathering_;  // before training began
  SkipWatch skips_;
  Clock highest_;  // the largest clock anybody reached
  std::int64_t dropped_ = 0;
  std::int64_t lost_ = 0;
  Staleness max_clock_gap_;
};

// Of a run that was not stopped and is over: how many of its iterations nobody has done. A lost worker left
// them when all others had been told that nothing is left, or where the workers are fixed. 0 before.
std::int64_t iterations_undone(const Engine& engine);

}  // namespace paceline::sync
