// Keeps mini-batches ready: loader threads make the mini-batches that the training threads of a node will ask
// for next, so that phase BATCH costs a training thread a hand-over.
//
// Which samples a worker gets is only known with its grant. Under `share: even` it is predictable (rank r of
// K has the r-th n of each K n), until balanced batches change sizes, or a node is lost: from then on
// iterations come closer than predicted, to the run's end. Under `share: pool` it is not. So a
// prediction is a hint and never more: a mini-batch that was not predicted, or that no loader thread has
// begun yet, is made on the training thread that asks for it. A wrong hint, or too few loader threads, cost
// time and cannot stop a worker.
//
// Everything is bounded: a queue holds prefetch + 1 mini-batches, made once and filled again and again, and
// has at most one job per mini-batch in the pool.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>

#include "common/status.h"
#include "worker/data/batch_maker.h"

namespace paceline {

struct LoaderOptions {
  std::uint32_t threads =
      1;  // data.loader_threads; 0: every mini-batch is made by the thread that asks for it
  std::uint32_t prefetch = 2;  // data.prefetch_batches: mini-batches kept ready per worker
  // Longest wait for a mini-batch that a loader thread has begun; making one takes milliseconds.
  std::chrono::nanoseconds deadline = std::chrono::seconds(30);
  // Of the mini-batches' images (MiniBatch); null: the heap. Used by all threads, and for as long as a queue
  // or a loader thread lives.
  std::shared_ptr<std::pmr::memory_resource> memory = nullptr;
};

// Which of several mini-batches one is that follow one another (train.local_steps).
struct InRow {
  std::int64_t place = 0;
  std::int64_t of = 1;  // > place
};

// The mini-batches a worker will probably be granted: `first`, and as many samples `stride` positions further
// each time. After another one the prediction goes on from that, with its size. stride 0: unpredictable,
// nothing is made ahead.
//
//   {{128, 128}, 512}   [128, 256) [640, 768) ...; granted [640, 776) instead, next come [1152, 1288) ...
//
// With local steps several follow one another before the next stride:
//
//   {{128, 64}, 512, 2}   [128, 192) [192, 256) [640, 704) [704, 768) ...
//
// A row that was left early (train.local_time) is expected to be left there the next time, too.
struct Prediction {
  BatchPart first;
  std::int64_t stride = 0;
  std::int64_t in_a_row = 1;  // from `first` on, until next() says otherwise
};

// A mini-batch that is ready, and the samples in it.
struct ReadyBatch {
  BatchPart part;
  const MiniBatch* batch;
};

// How the calls of next() were served.
struct LoaderCounts {
  std::int64_t ready = 0;      // made before it was asked for
  std::int64_t waited = 0;     // a loader thread was making it
  std::int64_t on_demand = 0;  // made by the caller
};

class LoaderCore;

// One worker's mini-batches. Thread: one, the worker's. May outlive its Loader.
class BatchQueue {
 public:
  ~BatchQueue();
  BatchQueue(BatchQueue&&) noexcept;
  BatchQueue& operator=(BatchQueue&&) = delete;

  // The mini-batch of the samples of `part`, at least one, the `row.place`-th of its row; not said: as the prediction
  // has it. It belongs to the queue and is unchanged until the next call of next(). Afterwards the loader threads
  // start on those predicted to follow. Errors: kAborted the loader was stopped; kDeadlineExceeded a loader thread did
  // not finish it in time; those of BatchMaker::make().
  Result<const MiniBatch*> next(const BatchPart& part, std::optional<InRow> row = std::nullopt);

  // The same, for the caller to keep: it is put into `batch`, whose memory, the heap's, makes a later one.
  // LoaderOptions::memory is null.
  Status take(const BatchPart& part, MiniBatch& batch);

  // The mini-batch that is predicted to follow the one that next() has given out, if it has been made
  // already; nullopt: it has not, or nothing is predicted. Waits for no loader thread. It belongs to the
  // queue and is unchanged until the next call of next(), and longer if that is given its part: then it is
  // what that returns.
  std::optional<ReadyBatch> following() const;

  LoaderCounts counts() const;

 private:
  friend class Loader;
  struct State;
  explicit BatchQueue(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

// The loader threads of one node. Thread: open() and stop() from any.
class Loader {
 public:
  Loader(std::shared_ptr<const BatchMaker> maker, const LoaderOptions& options);
  // Stops, and joins the loader threads.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // A worker's queue; the loader threads start on its first predicted mini-batches at once.
  BatchQueue open(const Prediction& prediction);

  // Every waiting and every later next() returns kAborted. Idempotent.
  void stop();

 private:
  struct Threads;
  std::shared_ptr<LoaderCore> core_;
  std::unique_ptr<Threads> threads_;
  LoaderOptions options_;
};

}  // namespace paceline
