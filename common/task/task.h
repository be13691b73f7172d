// Task: what turns (parameters, mini-batch) into (gradient, loss, correct). The built-in one is the neural
// network of worker/model; a library user drives the worker with a Task of their own (docs/ARCHITECTURE.md,
// "A task of your own"; tests/process/counting_task.h is the smallest one).
//
// The three calls of a training thread, in the order of the data's path:
//   load(step)                                BATCH            get the mini-batch of this step
//   compute(parameters, gradient, final_from) COMPUTE_GRADS    from the thread cache's parameters
//   evaluate(parameters)                      by the evaluator's own Task, never during a step
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "common/batch_part.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/metric.h"
#include "common/params/layout.h"
#include "common/status.h"

namespace paceline {

// One iteration, as granted.
struct Step {
  WorkerId worker;
  Clock clock;                 // the timestamp of the gradient
  std::int64_t iteration = 0;  // its place in the run
  // What the grant bounds the parameters of this step by, and what they are (DESIGN 3.2): version >=
  // min_version.
  Threshold threshold;
  Version min_version;
  Version version;
  Revision revision;
  // Its mini-batch. With equal sizes: [iteration * batch_size, + batch_size) (DESIGN 3.4). Under
  // train.batch_balance: speed compute()'s metric must be of just so many samples, or the worker ends; else a
  // task may count as it likes. Never more than the run can have (worker/train/batch_limits.h).
  BatchPart batch;
};

// What compute() may say while it goes on: that elements [begin, layout().size()) of the gradient are what
// they will be. They may leave for the servers at once, while the rest is computed. A backward pass has the
// last layer's gradient first, so `begin` falls from call to call; one that does not says nothing new and is
// ignored. 0 <= begin <= layout().size(); another one fails the step when compute() returns, with
// kInvalidArgument, and nothing more leaves. To be called on compute()'s thread, before it returns.
//
//   final_from(conv2.offset);   all from conv2 on is done: conv2, fc1, fc2
using FinalFrom = std::function<void(std::int64_t begin)>;
// For who uses a gradient only when it is whole.
inline void whole_at_the_end(std::int64_t) {}

// A Task belongs to one thread and is created on that thread (libraries keep thread-local state).
class Task {
 public:
  virtual ~Task() = default;

  // Makes the mini-batch of `step` the current one. Blocks until it is there.
  virtual Status load(const Step& step) = 0;

  // Writes the gradient of the mean loss over the current mini-batch, at `parameters`, into `gradient`; both
  // are float32 vectors of layout().size() elements. `gradient` is overwritten whole. A NaN or infinite
  // result is not an error here: the trainer checks it. To call `final_from` is never needed; what it was
  // called for is read by other threads from then on, and must not be written any more, in this call.
  virtual Result<Metric> compute(std::span<const float> parameters, std::span<float> gradient,
                                 const FinalFrom& final_from) = 0;

  // The metric of `parameters` over the whole test set, without augmentation or dropout.
  virtual Result<Metric> evaluate(std::span<const float> parameters) = 0;
};

// Makes the Tasks of one node; owns what its threads share (the data set, the loader threads).
// Thread: every member may be called from any thread after construction.
class TaskFactory {
 public:
  virtual ~TaskFactory() = default;

  virtual const Layout& layout() const = 0;

  // What the nodes of one run must have in common of the data: nodes whose fingerprints differ are refused
  // when they join. 0 when there is nothing to compare.
  virtual std::uint64_t data_fingerprint() const { return 0; }

  // Fills `parameters` (layout().size() floats) with initial values, a pure function of the run's seed.
  virtual void initialize(std::span<float> parameters) const = 0;

  // A Task for training thread `worker`. Called on the thread that will use it; again, when an earlier one is
  // gone, where the node goes on with other servers.
  virtual Result<std::unique_ptr<Task>> make_trainer(WorkerId worker) = 0;

  // Whether a trainer keeps nothing from one step to the next and nothing of its worker, so that one may
  // stand in for every worker of the run, on its thread: `paceline simulate` then makes a single one.
  virtual bool trainers_are_alike() const { return false; }

  // A Task whose evaluate() is used by the evaluator thread. Called on the thread that will use it.
  virtual Result<std::unique_ptr<Task>> make_evaluator() = 0;

  // Nobody will look at what the evaluators made so far say: an evaluate() under way should return early,
  // with any error. One made later works; a node whose servers were lost makes it for the next ones. Thread:
  // any. Returns soon.
  virtual void stop_evaluating() {}
};

}  // namespace paceline
