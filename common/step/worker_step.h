// WorkerStep: what a worker does next, in which order, and where it takes its parameters from. A pure state
// machine like the engine (common/sync/engine.h): events in, actions out. The training thread
// (worker/train/train_step.h), the simulator (simulate/worker.h) and the tests' nodes (tests/sim/node_model.h)
// drive the very same code; none of them knows the order of a step, or a rule of freshness.
//
// One round. Each event leads to the actions beside it, to be carried out in their order; the last of them
// brings the next event when it is done.
//
//   event               actions
//   Granted             AwaitParameters        where the servers have to be waited for
//                       MakeCurrent            where the caches have what the grant asks for
//   Arrived             MakeCurrent
//   ParametersCurrent   LoadBatch
//   BatchLoaded         [Pull kPrefetch]       Compute
//   GradientComputed    [SendFragment] [Pull] LoadBatch   while local steps and time are left and all is finite; else:
//                       [Pull kBeforePush]     CheckGradient
//   GradientChecked     ApplyLocally           where own updates are kept and the gradient is finite, else:
//   AppliedLocally      Contribute | Withdraw, Report
//   Sent                [Pull kAfterPush]      [InstallEarly] AwaitInstruction
//   InstalledEarly      -                      or as Granted, where the grant has been waiting
//   Granted             the exchange is done: the next round begins
//   Finished            -                      nothing follows
//
// InstallEarly: what was pulled with the push and does not wait for the grant is taken over before the grant
// is looked at. A grant that comes meanwhile is kept until that is done; Finished ends the wait.
//
// Worked example, SSP s = 1, refresh_clocks = 1. At clock 4, version 3 in both caches, worker 0.0 pushes. At
// clock 5 it will need version 4, which is not here: Sent leads to Pull{kAfterPush, 4}, which the servers
// hold until the slowest has completed clock 3. Granted{clock 5, min_version 4} before it has come leads to
// AwaitParameters{4, with the push}; after it, to MakeCurrent from the process cache.
//
// Local steps. Without them a round is one mini-batch and its contribution that gradient. With them it is
// several mini-batches of StepRules::mini_batch samples. To compute then means to take a step of the worker's inner
// optimizer, too, on parameters of its own that begin as the thread cache is. What is contributed, and applied locally,
// is the delta: the parameters at the begin of the round minus those at its end (worker/train/local_steps.h).
//
// Fragments: the last tensors' delta may leave in mid-round, the next ones' later, the rest with Contribute. What the
// steps after it add there is in the next round's delta. A worker's last round leaves whole. Likewise of what is pulled
// with the push the first fragment is asked for there, each other one later in the next round; under threshold 0 all
// are.
//
//   three local steps:  LoadBatch{0} Compute{0}  LoadBatch{1} Compute{1}  LoadBatch{2} Compute{2}  CheckGradient …
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "common/cache/freshness.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/instant.h"
#include "common/status.h"
#include "common/step/grant.h"

namespace paceline::step {

// What a rule may need to know of the caches. Whoever looks does so in this order: what is seen to be
// installed must be in the process cache that is looked at.
struct View {
  bool pull_installed = false;            // all that was pulled with the last push, where something was
  cache::ProcessCacheState newest_known;  // that any grant or answer to this node has named
  cache::ThreadCacheState thread;
  cache::ProcessCacheState process;
};

// ---- events

// `arrived`: when the grant was here. It may have been here for a while.
struct Granted {
  Grant grant;
  Ticks arrived;
  View now;
};
struct Finished {};
// InstallEarly is done: `installed` when the last of it was in the process cache, `done` when the thread
// cache had it. `anything`: whether anything of it was new to the thread cache; that needs a refresh.
struct InstalledEarly {
  Ticks installed;
  Ticks done;
  bool anything = false;
  View now;
};
// AwaitParameters is done: in the process cache since `installed`; `done`: and the wait over.
struct Arrived {
  Ticks installed;
  Ticks done;
};
struct ParametersCurrent {};
struct BatchLoaded {
  View now;
};
// `finite`: whether the loss is; where it is not no further local step makes sense, and the round ends. So it does
// where its time is up (grant.h).
struct GradientComputed {
  View now;
  bool finite = true;
  bool time_is_up = false;
};
struct GradientChecked {
  bool finite = true;
};
struct AppliedLocally {};
// Contribution and report are under way.
struct Sent {
  View now;
};

using Event = std::variant<Granted, Finished, InstalledEarly, Arrived, ParametersCurrent, BatchLoaded,
                           GradientComputed, GradientChecked, AppliedLocally, Sent>;

// ---- actions

// Wait until the process cache has what was pulled with the last push or, if that will not do, parameters of
// `min_version` or newer, to be pulled now: all fragments. Then Arrived.
struct AwaitParameters {
  bool pulled_with_push = false;
  Version min_version;
};
// Compute with the thread cache as it is, or refresh it from the process cache; then apply what of own
// updates was put off and is needed. Ends the running exchange, if one runs: `first`: none does.
// `parameters`: how long it waited for parameters with the grant there, where it did; negative when they came
// before it. Then ParametersCurrent.
struct MakeCurrent {
  bool refresh = false;
  bool first = false;
  std::optional<std::chrono::nanoseconds> parameters;
};
// The granted mini-batch; with local steps the `local_step`-th of them, from 0. Then BatchLoaded.
struct LoadBatch {
  std::int64_t local_step = 0;
};
// Ask for parameters of `min_version` or newer, without waiting.
enum class PullWhen {
  kPrefetch,    // what the next round is certain to require and exists: while the gradient is computed
  kBeforePush,  // ahead of whatever of the gradient has not left
  kAfterPush,   // right after it, or, of a fragment, later in the next round
};
struct Pull {
  PullWhen when = PullWhen::kPrefetch;
  Version min_version;
  bool installs_early = false;  // InstallEarly follows, with at most a pass or two over memory in between
  std::int64_t fragment = 0;    // of this one alone, from the parameters' end
};
// With its gradient; `local_step` as above. Then GradientComputed.
struct Compute {
  std::int64_t local_step = 0;
};
// The delta of the round's `n`-th fragment, from the parameters' end, is what it is now, and leaves.
struct SendFragment {
  std::int64_t n = 0;
};
// Is what would be contributed finite? With local steps the delta is made first. Then GradientChecked.
struct CheckGradient {};
// The worker's own update (read-my-writes). Then AppliedLocally.
struct ApplyLocally {};
// The gradient counts, or it does not: whatever has left of it is taken back.
struct Contribute {};
struct Withdraw {};
// The round's clock closes, `skipped` without a contribution. Then Sent.
struct Report {
  bool skipped = false;
};
// Then InstalledEarly, unless Finished comes first.
struct InstallEarly {};
// Then Granted or Finished.
struct AwaitInstruction {};

using Action =
    std::variant<AwaitParameters, MakeCurrent, LoadBatch, Pull, Compute, SendFragment, CheckGradient,
                 ApplyLocally, Contribute, Withdraw, Report, InstallEarly, AwaitInstruction>;

// What of the run's configuration the order of a step depends on.
struct StepRules {
  std::optional<std::int64_t> refresh_clocks = {};  // cache::FreshnessRules
  bool pulls_before_push = true;                    // there, too
  bool applies_locally = false;                     // cache::keeps_own_updates()
  std::int64_t mini_batch = 0;                      // samples of each local step, if there are any (grant.h)
  bool hidden = false;                              // cache::FreshnessRules
  std::int64_t fragments = 1;                       // of a round, but of those from this one on in the run:
  std::int64_t whole_from = 0;
};

// One worker's, from its first grant to its last. Thread: one.
class WorkerStep {
 public:
  explicit WorkerStep(const StepRules& rules) : rules_(rules) {}

  // Takes one event and appends what follows from it to `actions`. Errors: kInvalidArgument, a grant that
  // does not move the worker's clock on; nothing has changed then. An event that does not follow from the
  // last actions is our own bug.
  Status step(const Event& event, std::vector<Action>& actions);

  // The round's; once granted.
  const Grant& grant() const { return grant_; }
  Ticks granted_at() const { return granted_at_; }
  // Whether the round's parameters were installed early, but after its grant.
  bool installed_after_grant() const { return early_ && early_->done > granted_at_; }
  // Whether a round has begun.
  bool begun() const { return begun_; }
  // Whether a grant has come that is looked at once InstallEarly is done.
  bool grant_waits() const { return grant_waits_; }
  // Whether what was pulled with the last push has been installed early.
  bool installed_early() const { return early_.has_value(); }

  // What it has done so far.
  std::int64_t reads() const { return reads_; }                // MakeCurrent, begun
  std::int64_t server_reads() const { return server_reads_; }  // of them, those that waited for servers
  std::int64_t contributed() const { return contributed_; }
  std::int64_t skipped() const { return skipped_; }

 private:
  // What the next event has to be.
  enum class Expects {
    kInstruction,  // Granted, Finished; InstalledEarly as well while installing_ says so
    kArrived,
    kCurrent,
    kBatch,
    kGradient,
    kChecked,
    kApplied,
    kSent,
    kNothing,
  };
  struct InstalledAt {
    Ticks installed;
    Ticks done;
  };

  Status on(const Granted& event, std::vector<Action>& actions);
  Status on(const Finished& event, std::vector<Action>& actions);
  Status on(const InstalledEarly& event, std::vector<Action>& actions);
  Status on(const Arrived& event, std::vector<Action>& actions);
  Status on(const ParametersCurrent& event, std::vector<Action>& actions);
  Status on(const BatchLoaded& event, std::vector<Action>& actions);
  Status on(const GradientComputed& event, std::vector<Action>& actions);
  Status on(const GradientChecked& event, std::vector<Action>& actions);
  Status on(const AppliedLocally& event, std::vector<Action>& actions);
  Status on(const Sent& event, std::vector<Action>& actions);

  void expect(Expects now, Expects next);
  cache::FreshnessRules freshness() const;
  void read(const View& now, std::vector<Action>& actions);
  void send_fragments(std::int64_t steps, std::vector<Action>& actions);
  void pull_fragments(std::int64_t steps, std::vector<Action>& actions);
  void make_current(bool refresh, std::vector<Action>& actions);
  void send(bool finite, std::vector<Action>& actions);
  void pull(PullWhen when, const cache::PullWithPushPlan& plan, std::vector<Action>& actions);

  StepRules rules_;
  Expects expects_ = Expects::kInstruction;
  bool begun_ = false;
  Grant grant_;
  std::int64_t local_step_ = 0;      // of the round: the one that it is in
  std::int64_t fragments_sent_ = 0;  // of the round
  Ticks granted_at_;
  bool grant_waits_ = false;
  // What was pulled with the last push.
  std::optional<Version> pulled_;  // it was: the version asked for
  std::int64_t fragments_pulled_ = 0;
  bool installs_early_ = false;       // it does not wait for the grant
  std::optional<InstalledAt> early_;  // and has not
  bool installed_anything_ = false;
  std::optional<std::chrono::nanoseconds> waited_;  // MakeCurrent::parameters

  std::int64_t reads_ = 0;
  std::int64_t server_reads_ = 0;
  std::int64_t contributed_ = 0;
  std::int64_t skipped_ = 0;
};

}  // namespace paceline::step
