// AuthorityChecker: judges everything the engine does against a slow, independent account of the same events.
// It keeps plain sets and searches all workers each time; it shares no code with the engine but the event and
// action types.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "common/sync/actions.h"
#include "common/sync/engine.h"
#include "common/sync/events.h"
#include "tests/sim/counting.h"
#include "tests/sim/share_account.h"

namespace paceline::test {

class AuthorityChecker {
 public:
  AuthorityChecker(const sync::EngineConfig& config, Violations& violations);

  // As it was when a checkpoint was saved (a copy of it), it goes on with the next generation, resumed from
  // that: authority_resumed.cc.
  AuthorityChecker resumed(Violations& violations) const;

  // Takes note of an event that the engine is about to see.
  void before(const sync::Event& event, Ticks now);
  // Judges what the engine made of it.
  void after(const std::vector<sync::Action>& actions);
  // Judges the whole run.
  void at_end(const sync::Engine& engine);
  // So many grants came ahead of the completion of the iteration before.
  std::int64_t grants_ahead() const { return grants_ahead_; }

 private:
  AuthorityChecker(const AuthorityChecker& saved, Violations& violations);
  using Gradient = std::pair<WorkerId, Clock>;
  enum class State { kAbsent, kJoined, kAsks, kRuns, kLate, kFinished, kGone };
  struct Account {
    State state = State::kAbsent;
    Clock clock;
    Clock stamp;  // of the iteration it is in
    std::int64_t iteration = 0;
    Version min_version;
    bool fresh = false;  // it came late, and has not been granted anything
    std::set<ShardId> arrived;
    std::optional<sync::StepReported> report;
    bool faulty = false;
    std::int64_t samples = 0;         // as granted
    std::vector<Account> ahead = {};  // the iteration that it was granted while it was in this one, if it was
  };

  // DSSP: what a worker's pushes come to.
  struct Pushes {
    std::vector<Ticks> at;   // the begin of training, then one for each clock
    std::int64_t place = 0;  // of the last among all
    Clock extra_until{-1};
    Threshold raised;
  };

  bool note(const sync::Joined& e);
  bool note(const sync::GradientArrived& e);
  bool note(const sync::StepReported& e);
  bool note(const sync::Lost& e);
  bool note(const sync::StopRequested& e);
  bool note(const sync::QuiesceRequested&) { return rests_ = true; }
  bool note(const sync::QuiesceEnded&) { return !(rests_ = false); }
  bool note(const sync::Tick& e);
  // Balanced batches: whether the worker has computed from what it was granted.
  bool as_granted(const Account& a, std::int64_t samples) const {
    return config_.batch_sizing == BatchSizing::kEqual || samples == a.samples;
  }
  bool may_begin() const;
  void begin();
  std::set<std::int64_t> decided() const;
  Account* stamped(WorkerId worker, Clock clock);
  void note_stop(bool failed);
  void note_completion(WorkerId worker);
  bool promote(Account& a);
  void note_departure(WorkerId worker);
  void note_late();
  void note_clock_moved(WorkerId worker);
  void note_push(WorkerId worker);
  void predict(WorkerId worker);
  Threshold threshold_of(WorkerId worker) const;
  void take_policy(std::size_t stage);  // 0 where there are no stages
  std::size_t stage_due() const;
  void check_stage();

  void check(const sync::Started& a);
  void check(const sync::Apply& a);
  void check_staleness(const sync::Contributor& c);
  void check(const sync::Grant& a);
  void note_batch(const sync::Grant& g, const std::string& who);
  void check_clock_samples(const sync::Grant& g, const std::string& who);
  void note_sizes(const sync::Grant& g, const std::string& who);
  void check(const sync::HeldNotice& a);
  void check(const sync::VersionAdvanced& a);
  void check(const sync::ThresholdChanged& a);
  void check(const sync::PolicySwitched& a);
  void check(const sync::WindowClosed& a);
  void check(const sync::Discard& a);
  void check(const sync::FinishWorker& a);
  void check(const sync::RunFailed& a);
  void check(const sync::AllFinished& a);
  void check(const sync::Quiesced& a);
  void check(const sync::Reject& a);

  bool in_iteration(const Account& a) const { return a.state == State::kRuns || a.state == State::kLate; }
  bool is_live(const Account& a) const { return a.state == State::kAsks || in_iteration(a); }
  bool anybody_live() const;
  Clock slowest() const;
  Clock fastest() const;
  void note_clock_gap();
  // share: even: how many gradients are still to be applied when `clock` begins.
  std::int64_t left_at(Clock clock) const { return config_.total_iterations - clock.value * first_n_; }
  bool even_done(WorkerId worker, Clock clock) const;
  bool may_come(WorkerId worker) const;
  bool pool_empty() const { return next_iteration_ == config_.total_iterations && returned_.empty(); }
  void violation(const std::string& what) { violations_.push_back("authority: " + what); }

  const sync::EngineConfig config_;
  Violations& violations_;
  std::map<WorkerId, Account> accounts_;
  Clock stops_at_{0};  // to which clock a stop brings all; 0: each stops where it is
  bool begun_ = false, stopping_ = false, rests_ = false, finished_ = false, anybody_lost_ = false;
  bool rejection_due_ = false;
  std::map<Gradient, std::pair<Version, Revision>> computed_;  // with which parameters, as reported
  std::set<Gradient> complete_, applied_, discard_due_, faulty_;
  std::set<Gradient> empty_;                     // completed without a gradient that could be applied
  std::map<Gradient, Metric> metrics_;           // of each complete gradient
  std::map<Gradient, std::int64_t> iterations_;  // that were granted so
  std::set<std::int64_t> decided_before_;    // iterations: applied, or without a gradient, when it was saved
  std::int64_t applied_before_ = 0;          // of them, that were applied
  std::optional<std::set<NodeId>> awaited_;  // resumed: there when it was saved, and not there yet
  Version begins_;                           // what this generation began with
  std::vector<Gradient> updates_;            // that were applied, in order
  std::map<Gradient, sync::StepReported> reports_;  // with what; not applied yet
  const std::int64_t first_n_;                      // a clock takes so many
  std::int64_t dropped_ = 0, lost_ = 0, grants_ahead_ = 0;
  const bool fluid_;                           // workers come and go
  ShareAccount shares_;                        // even, fluid
  std::map<WorkerId, Clock> never_had_;        // the first stamp of each that it was not granted yet
  std::map<WorkerId, std::set<Clock>> began_;  // the stamps that it began with, each time it came
  std::set<std::int64_t> given_;               // iterations: granted, and not lost since
  bool anybody_finished_ = false, lost_behind_finish_ = false, complete_end_ = false;
  std::map<std::int64_t, std::int64_t> batches_;  // position, samples: of every grant
  // Samples of each grant.
  std::map<Clock, std::map<WorkerId, std::int64_t>> sizes_;
  std::int64_t completed_iterations_ = 0;
  std::int64_t without_gradient_ = 0;  // of them
  std::int64_t next_iteration_ = 0;
  std::set<std::int64_t> returned_;
  Clock highest_;
  bool stays_ = false;                    // the version, of an eager run that is stopped
  std::optional<Version> eager_version_;  // after the last event, if gradients are applied on arrival
  Version version_;
  Threshold threshold_, largest_threshold_;
  std::map<std::int64_t, Metric> windows_;
  std::optional<double> previous_metric_;
  std::optional<int> threshold_step_due_;
  std::optional<Threshold> threshold_announced_;  // by the last window, to be in force after it
  Staleness grant_gap_, clock_gap_;
  Ticks now_;
  sync::PolicyConfig policy_;  // in force
  std::size_t stage_ = 0;
  bool eager_ = false;  // each gradient is applied as it comes, from here on
  std::int64_t completed_at_version_ = 0;
  Version stage_begun_;
  std::optional<Metric> stage_window_;  // the last that began and closed in this stage
  std::map<WorkerId, Pushes> pushes_;
  std::int64_t pushes_seen_ = 0;
};

}  // namespace paceline::test
