// Task: what turns (parameters, mini-batch) into (gradient, loss, correct). The built-in one is the neural
// network of worker/model; a library user drives the worker with a Task of their own (docs/ARCHITECTURE.md,
// "A task of your own"; tests/process/counting_task.h is the smallest one).
//
// The three calls of a training thread, in the order of the data's path:
//   load(step)                                BATCH            get the mini-batch of this step
//   compute(parameters, gradient, final_from) COMPUTE_GRADS    from the thread cache's parameters
//   evaluate(parameters)                      by the evaluator's own Task, never during a step
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <span>

#include "common/batch_part.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/loss_scale.h"
#include "common/metric.h"
#include "common/params/layout.h"
#include "common/params/partition.h"
#include "common/schedule/pass_span.h"
#include "common/status.h"
#include "common/task/cache_vectors.h"
#include "common/task/peers.h"
#include "common/task/stage_report.h"

namespace paceline {

struct OptimizerSection;  // common/config/run_config.h

// One iteration, as granted.
struct Step {
  WorkerId worker;
  Clock clock;                 // the timestamp of the gradient
  std::int64_t iteration = 0;  // its place in the run
  // What the grant bounds the parameters of this step by, and what they are (docs/SYNC.md, What a worker
  // sees): version >= min_version.
  Threshold threshold;
  Version min_version;
  Version version;
  Revision revision;
  // Its mini-batch. With equal sizes: [iteration * batch_size, + batch_size) (docs/DATA.md). Under
  // train.batch_balance: speed compute()'s metric must be of just so many samples, or the worker ends; else a
  // task may count as it likes. Never more than the run can have (worker/train/batch_limits.h).
  BatchPart batch;
  // Which of the round's local steps it is, from 0 (train.local_steps): each has a mini-batch, an iteration and
  // parameters of its own; all else is the round's.
  std::int64_t local_step = 0;
  std::int64_t local_steps = 1;  // of this round
  // What loss_scale() of this worker said last, in this process or another; none: it goes on with its own.
  LossScale loss_scale = {};
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

  // The memory of this task's thread cache, of `floats` parameters, where it has a memory of its own to
  // compute in, as a GPU's. Null: the host's. Asked at most once, before the first load(); what is made does
  // not outlive the task.
  virtual Result<std::unique_ptr<CacheVectors>> make_cache_vectors(const OptimizerSection& /*optimizer*/,
                                                                   std::int64_t /*floats*/) {
    return std::unique_ptr<CacheVectors>();
  }

  // Makes the mini-batch of `step` the current one. Blocks until it is there.
  virtual Status load(const Step& step) = 0;

  // Writes the gradient of the mean loss over the current mini-batch, at `parameters`, into `gradient`; both
  // are float32 vectors of layout().size() elements. `gradient` is overwritten whole. A NaN or infinite
  // result is not an error here: the trainer checks it. To call `final_from` is never needed; what it was
  // called for is read by other threads from then on, and must not be written any more, in this call.
  //
  // `parameters` is empty where the vectors of make_cache_vectors() are in a memory that the host does not
  // see: the parameters are there.
  virtual Result<Metric> compute(std::span<const float> parameters, std::span<float> gradient,
                                 const FinalFrom& final_from) = 0;

  // After the last compute(), where gradients are computed in float16: state of the run. Else none.
  virtual LossScale loss_scale() const { return {}; }

  // Of the last compute(), for how long it waited for other nodes: a stage of a pipeline does.
  virtual std::chrono::nanoseconds waited() const { return {}; }

  // The metric of `parameters` over the whole test set, without augmentation or dropout.
  virtual Result<Metric> evaluate(std::span<const float> parameters) = 0;
};

// Makes the Tasks of one node; owns what its threads share (the data set, the loader threads).
// Thread: every member may be called from any thread after construction.
class TaskFactory {
 public:
  virtual ~TaskFactory() = default;

  virtual const Layout& layout() const = 0;

  // Which of the layout the tasks of `node` train, and so hold: their parameters and gradients are of these alone.
  // All of it, but for a stage of a pipeline. Evaluators have all.
  virtual Range trained_by(NodeId /*node*/) const { return {0, layout().size()}; }

  // How tasks talk to those of other nodes (common/task/peers.h), where one trains a part only: it is called
  // after the joining, before any load(). Null: that is over, and waits for others end.
  virtual void meet(std::shared_ptr<PeerChannels> /*peers*/) {}
  // What tasks of `node` may hear from each node of the run, by rank; nothing from those after the vector's end.
  virtual std::vector<PeerBounds> peer_bounds(NodeId /*node*/) const { return {}; }

  // Where a stage's passes are recorded (run.trace); it lives as long as the tasks. Before any is made, if at all.
  virtual void record_passes(schedule::PassSpans* /*into*/) {}
  // What this node's stage has done so far, of a pipeline.
  virtual StageReport stage_report() const { return {}; }

  // What the nodes of one run must have in common of the data: nodes whose fingerprints differ are refused
  // when they join. 0 when there is nothing to compare.
  virtual std::uint64_t data_fingerprint() const { return 0; }

  // Fills `parameters` (layout().size() floats) with initial values, a pure function of the run's seed.
  virtual void initialize(std::span<float> parameters) const = 0;

  // Takes what goes wrong and is no error, a line for people each time, from any thread, for as long as the
  // factory lives. Called before any task is made, if at all.
  virtual void warn_to(std::function<void(const std::string&)> /*warn*/) {}

  // How many samples of the data cannot be read and were left out, as far as this node has found: a number for
  // the run's summary. With data.parts: fixed, the sum over the nodes is the run's, else the largest.
  virtual std::int64_t samples_left_out(NodeId /*node*/) const { return 0; }

  // A Task for training thread `worker`. Called on the thread that will use it, before the node joins its
  // servers: what takes long is to be done here, where no other node waits for it. Called again, when an
  // earlier one is gone, where the node goes on with other servers.
  virtual Result<std::unique_ptr<Task>> make_trainer(WorkerId worker) = 0;

  // Whether a trainer keeps nothing from one step to the next and nothing of its worker, so that one may
  // stand in for every worker of the run, on its thread: `paceline simulate` then makes a single one.
  virtual bool trainers_are_alike() const { return false; }

  // What the gradients of training thread `thread` are computed on, for people, as "GPU 1"; empty: the host.
  virtual std::string computes_on(std::uint32_t /*thread*/) const { return {}; }

  // Where the gradients of a training thread lie, given a memory for them (null: the heap): that one, or one
  // over it that a device can write to directly, as page-locked memory of a GPU. Servers may map a memory
  // that is given, so what is returned takes all its blocks from there then. It is used by several threads,
  // and may be when the factory is gone.
  virtual std::shared_ptr<std::pmr::memory_resource> gradient_memory(
      std::shared_ptr<std::pmr::memory_resource> upstream) {
    return upstream;
  }

  // Where parameters lie that the threads of the node share, in few, large blocks that are used again: a
  // memory that a device reads by itself. Null: the heap. It is used by several threads, and may be when the
  // factory is gone.
  virtual std::shared_ptr<std::pmr::memory_resource> parameter_memory() { return nullptr; }

  // For as long as what is returned lives, a device reads `pages` by itself: whole pages of this process that
  // others write, where parameters come from. Null: there is no such device; an error: why it does not, and
  // no harm is done. Until then they stay mapped, and parameters that lie in them keep them so. What is
  // returned may go when the factory has gone. Thread: any; that of the transport waits for it, once for each
  // time that servers' memory has grown.
  virtual Result<std::shared_ptr<void>> pin(std::span<const std::byte> /*pages*/) {
    return std::shared_ptr<void>();
  }

  // A Task whose evaluate() is used by the evaluator thread. Called on the thread that will use it.
  virtual Result<std::unique_ptr<Task>> make_evaluator() = 0;

  // Nobody will look at what the evaluators made so far say: an evaluate() under way should return early,
  // with any error. One made later works; a node whose servers were lost makes it for the next ones. Thread:
  // any. Returns soon.
  virtual void stop_evaluating() {}
};

}  // namespace paceline
