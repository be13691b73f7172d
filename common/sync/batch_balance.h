// BatchBalance: how many samples each worker's mini-batch has, so that all of them take equally long
// (`train.batch_balance: speed`). Where nodes differ for good, every policy with even shares ends at the
// slowest's pace (docs/SYNC.md); a smaller mini-batch for the slow and a larger one for the fast takes that
// difference away. The gradients are then averaged by samples, so the mean is over the same number of samples
// as before: the sizes of a clock add up to workers x batch_size.
//
//   batch_size 128, four nodes of one worker, times 1 : 1 : 1.3 : 1.6 for 128 samples each
//     proportional to speed   150.9  150.9  116.1   94.3      a clock: 1.18
//     multiples of 8          152    152    112     96        a clock: 1.20, instead of 1.6
//
// Assumed: a step's time is proportional to its samples. What is not (latency, a transfer) is measured along
// with it, so sizes settle where whole iterations take equally long, a little off the proportional ones.
//
// Measured: an iteration's time from its grant until it is complete, divided by its samples; per node, since
// its threads run on one machine; the mean of the last iterations, older ones weighing less. Sizes are
// reviewed every kReviewClocks clocks, and changed only where the slowest would gain more than kGain by it:
// they do not follow jitter back and forth. The same observations in the same order give the same sizes.
//
// With local steps (`train.local_balance: speed`; DyLU of Liu et al., "Asynchronous local-SGD training for language
// modeling", 2024) what is cut is a round, and the step is a mini-batch: each worker takes as many as its speed allows.
//
//   batch_size 64, local_steps 10, the same nodes: 12 12 9 7 mini-batches of 64, instead of 10 10 10 10
//
// Who is lost keeps the size that it had last. The others share what is not its: a node that is gone is
// neither waited for nor given more, whatever was measured of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/ids.h"

namespace paceline::sync {

// Samples by rank.
using BatchSizes = std::vector<std::int64_t>;

// Of a mini-batch: what vector kernels like, and few enough sizes to keep programs for.
inline constexpr std::int64_t kBatchStep = 8;
// Sizes in multiples of `step`, each at least one, for workers whose samples take `seconds_each` (by rank, > 0,
// finite): those whose longest time is the shortest of all that add up to `total`, a multiple of `step` of at
// least one for each. Among equals lower ranks get more.
BatchSizes balanced_sizes(const std::vector<double>& seconds_each, std::int64_t total, std::int64_t step);

// What is seen of an iteration's time. Where exchanges are hidden (exchange.hidden), those of a worker that waited for
// its grant are not: alone its iteration has taken at most so long. A mean with such bounds in it is a bound of the
// mean, which the least of them is not: where times vary, the fastest round ever says little of the next.
enum class Seen { kAlone, kWithExchange };

// Thread: one (the engine's).
class BatchBalance {
 public:
  static constexpr std::int64_t kReviewClocks = 4;
  static constexpr double kGain = 0.03;
  // After so many iterations of each of its threads an old one weighs 1/e in a node's mean.
  static constexpr std::int64_t kMemoryClocks = 32;

  // Sizes are multiples of `step`, and so is `batch_size`.
  BatchBalance(Cluster cluster, std::int64_t batch_size, std::int64_t step);

  // An iteration of `samples` > 0 was complete `length` after its grant.
  void observe(Rank worker, std::int64_t samples, std::chrono::nanoseconds length, Seen seen = Seen::kAlone);

  // `worker` is gone, and computes nothing any more. It does not come back: where sizes follow speed nobody
  // does.
  void lose(Rank worker) { lost_[worker.value] = true; }
  bool lost(Rank worker) const { return lost_[worker.value]; }

  // Looks whether other sizes are better by now; true when they have changed. Never before each node that is
  // there has completed something.
  bool review();
  const BatchSizes& sizes() const { return sizes_; }
  // Sizes that were in effect when the run was saved, before anybody has completed anything. What was
  // measured for them is not known any more: they hold until each node has completed something.
  void resume(BatchSizes sizes) { sizes_ = std::move(sizes); }

 private:
  // What a sample takes in the mean: alone, and of all that was seen, which is that or more.
  class Pace {
   public:
    void observe(double seconds_each, Seen seen, std::int64_t memory);
    bool is_seen() const { return all_.observed > 0; }
    double seconds_each() const;

   private:
    struct Mean {
      double seconds = 0.0;
      std::int64_t observed = 0;
      void add(double seconds_each, std::int64_t memory);
    };
    Mean alone_;
    Mean all_;
  };

  Cluster cluster_;
  std::int64_t step_;
  std::vector<Pace> paces_;  // by node
  std::vector<bool> lost_;   // by rank
  BatchSizes sizes_;
};

}  // namespace paceline::sync
