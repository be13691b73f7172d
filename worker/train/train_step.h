// One iteration after another of one worker, in the order of the data's path. Which step follows which, and
// where parameters come from, step::WorkerStep decides; here its decisions are carried out. Read this and
// common/step/worker_step.h first: every other file of worker/ is a part that TrainStep calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/metric.h"
#include "common/params/layout.h"
#include "common/status.h"
#include "common/step/worker_step.h"
#include "common/task/task.h"
#include "common/timing/recorder.h"
#include "worker/cache/process_cache.h"
#include "worker/cache/thread_cache.h"
#include "worker/emulate/compute_slots.h"
#include "worker/emulate/emulator.h"
#include "worker/emulate/pace.h"
#include "worker/exchange/coordinator.h"
#include "worker/exchange/exchange.h"
#include "worker/train/batch_limits.h"
#include "worker/train/gradient_buffers.h"
#include "worker/train/gradient_upload.h"
#include "worker/train/inner_states.h"
#include "worker/train/local_steps.h"
#include "worker/train/timed_rounds.h"
#include "worker/train/work_watch.h"

namespace paceline {

// What one training thread works with. The references are the node's and outlive it; the rest is the thread's
// own.
struct WorkerContext {
  WorkerId worker;
  const Layout& layout;
  bool checks_finite = true;          // worker_checks_finite(), for NaN
  BatchLimits batches = {};           // that a grant may ask for
  std::chrono::nanoseconds deadline;  // for whatever should never take long: cluster.lease

  Coordinator& coordinator;
  Exchange& exchange;
  ProcessCache& process_cache;
  Task& task;
  PaceClock& pace;
  ComputeSlots* slots = nullptr;  // only where a cluster is emulated

  step::WorkerStep step;
  ThreadCache cache;
  GradientBuffers gradients;
  Emulator emulator;
  // Where a round has steps of the worker's own: the steps, how many of how many samples each, on average, and with
  // which learning rate one is taken whose mini-batch is of this iteration of the run.
  struct Local {
    LocalSteps steps;
    std::int64_t usual = 1;
    std::int64_t mini_batch = 0;
    std::function<double(std::int64_t)> rate;
    InnerStates* states = nullptr;  // where the inner optimizer's state is kept for a resume; null: nowhere
    TimedRounds* timed = nullptr;   // where rounds end by time; null: they do not
    // In the layout's order (exchange.fragments); none or one: a delta leaves whole. Several: where a mini-batch's
    // gradient is made, which is sent nowhere.
    std::vector<Range> fragments = {};
    std::optional<GradientBuffers> beside = {};
  };
  std::optional<Local> local = {};
  PhaseRecorder phases;
  std::function<Ticks()> clock;  // the recorder's
  ShownTimes* shown = nullptr;   // where its times are seen while it trains; null: nowhere
  WorkWatch* watch = nullptr;    // where it is seen what it is at; null: nowhere

  // What it has done so far, besides what `step` counts.
  std::int64_t contributed = 0;  // mini-batches, of rounds all
  std::int64_t skipped = 0;      // likewise
  std::int64_t overruns = 0;
  std::int64_t bytes_early = 0;  // of gradients, handed over while the rest was computed

  // Whether it computes at the pace of a cluster that is studied (emulated_compute.h).
  bool emulates() const { return emulator.emulates() || slots != nullptr; }
};

// Carries out the actions of `training.step` on the calling thread.
class TrainStep {
 public:
  explicit TrainStep(WorkerContext& training) : t_(training) {}

  // Until nothing follows. Errors: the exchange was closed; a grant does not move the clock on or asks for
  // samples that the run does not have; the task failed or counted other samples than were granted; the thread
  // cache's memory failed. The worker cannot go on. With the worker and its clock where it had begun a round.
  Result<Finished> run();

  // Phase STEP of the exchange that ends: the training thread's part and what was done for it elsewhere.
  std::chrono::nanoseconds report_time(const ReportTime& elsewhere) const {
    return reporting_ + elsewhere.building + elsewhere.parsing;
  }

 private:
  Status carry_out(const step::AwaitInstruction&);
  Status carry_out(const step::AwaitParameters& action);
  Status carry_out(const step::MakeCurrent& action);
  Status carry_out(const step::LoadBatch& action);
  Status carry_out(const step::Pull& action);
  Status carry_out(const step::Compute& action);
  Status carry_out(const step::SendFragment& action);
  Status carry_out(const step::CheckGradient&);
  Status carry_out(const step::ApplyLocally&);
  Status carry_out(const step::Contribute&);
  Status carry_out(const step::Withdraw&);
  Status carry_out(const step::Report& action);
  Status carry_out(const step::InstallEarly&);

  Status advance(const step::Event& event) { return t_.step.step(event, actions_); }
  step::View view() const;
  Status begin(const Granted& granted);
  void apply_what_was_put_off();
  // Of the round's local steps, one: which mini-batch it has, and where it stands among iterations or clocks.
  std::int64_t mini_batch() const { return t_.local ? t_.local->mini_batch : 0; }
  std::int64_t local_steps() const { return step::local_steps_of(t_.step.grant().batch, mini_batch()); }
  BatchPart local_batch(std::int64_t local_step) const {
    return step::local_batch(t_.step.grant().batch, mini_batch(), local_step);
  }
  std::int64_t local_place(std::int64_t round, std::int64_t local_step) const {
    const std::int64_t usual = t_.local ? t_.local->usual : 1;
    return step::local_place(round * usual, usual, local_step, local_steps());
  }
  bool in_fragments() const { return t_.local && t_.local->fragments.size() > 1; }
  std::size_t fragments() const { return in_fragments() ? t_.local->fragments.size() : 1; }
  Ticket request(Version min_version, std::int64_t fragment);
  Status begin_computing();
  Result<Metric> compute(std::int64_t local_step);
  Result<Metric> compute_now(std::int64_t local_step, const FinalFrom& final_from);
  void record_hidden();
  Status give_up(Status why);

  WorkerContext& t_;
  std::vector<step::Action> actions_;  // to be carried out
  std::optional<Finished> finished_;
  std::vector<Ticket> pulled_;             // with the last push: by fragment, as far as asked
  std::chrono::nanoseconds reporting_{0};  // this thread's part of the last step report

  // Of the round.
  ReportTime reported_;              // of the report that its grant answers
  Ticks started_;                    // for the emulator: it, or its local step
  Ticks round_began_;                // with the first of its local steps
  Ticks step_began_;                 // the local step
  std::int64_t taken_ = 0;           // of its local steps
  Phase reading_ = Phase::kPsParam;  // in which its parameters were made current
  struct Prefetch {
    Ticket ticket = 0;
    Ticks since;
  };
  std::optional<Prefetch> prefetch_;
  std::int64_t own_updates_ = 0;  // in the parameters that it computes with
  std::shared_ptr<GradientBuffers::Buffer> gradient_;
  // A mini-batch's gradient, where parts of the delta leave that one before; kept from round to round.
  std::shared_ptr<GradientBuffers::Buffer> beside_;
  std::optional<GradientUpload> upload_;  // the same on its way
  Metric metric_;
  std::chrono::nanoseconds compute_time_{0};
  std::string fault_;  // what is not finite
};

}  // namespace paceline
