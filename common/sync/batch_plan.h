// BatchPlan: which samples of the run a granted iteration is computed from: `samples` positions of the
// concatenated epoch permutations, from `position` on (worker/data/sampler.h).
//
//   equal       iteration g has [g n, g n + n), n = batch_size                                (docs/DATA.md)
//   by speed    clock c has the same K n positions, [c K n, (c + 1) K n), as with equal sizes; its workers
//               take them in the order of their ranks, each as many as its size at that clock
//
//   n = 16, K = 3, clock 2: positions 96 to 143; sizes 24 16 8: [96, 120) [120, 136) [136, 144)
//
// A clock's sizes are settled when the first of its iterations is granted and hold for all of them, whenever
// they are: so no sample is taken twice or left out, however far the workers are apart. A last clock that is
// not for all workers has equal sizes. Who is lost keeps its part of every clock, as large as it was last,
// and nobody computes it: such a clock has fewer samples, which is what a gradient's share of its mean is
// counted from. Memory: a pointer and a number for each clock between the slowest and the fastest, and a
// table of K for each set of sizes among them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "common/batch_part.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/sync/batch_balance.h"
#include "common/sync/modes.h"

namespace paceline::sync {

// Thread: one (the engine's).
class BatchPlan {
 public:
  // `batch_step`: what unequal sizes are multiples of.
  BatchPlan(BatchSizing sizing, Cluster cluster, std::int64_t batch_size, std::int64_t batch_step,
            std::int64_t total_iterations);

  // Of iteration `iteration`, which `worker` is granted at `clock`: not below the last forget_below().
  BatchPart part(Rank worker, Clock clock, std::int64_t iteration);
  // How many samples the gradients stamped `clock` are computed from, if nobody goes: of `contributors`
  // workers. Of a clock of which a part() was asked for, not below the last forget_below().
  std::int64_t clock_samples(Clock clock, std::int64_t contributors) const;
  // An iteration of `samples` was complete `length` after its grant.
  void observe(Rank worker, std::int64_t samples, std::chrono::nanoseconds length, Seen seen = Seen::kAlone);
  // `worker` is lost: it computes nothing of `from` and of later clocks.
  void lose(Rank worker, Clock from);
  // No iteration stamped below `clock` will be granted any more.
  void forget_below(Clock clock);

  // For a checkpoint: the sizes in effect by rank; none: they are equal. And back, at clock `begin`.
  BatchSizes sizes() const { return balance_ ? balance_->sizes() : BatchSizes{}; }
  void resume(const BatchSizes& sizes, Clock begin);

  std::size_t clocks() const { return tables_.size(); }

 private:
  struct Table {
    BatchSizes sizes;
    std::vector<std::int64_t> begins;  // within the clock's positions
  };
  struct SharedTable {
    std::shared_ptr<const Table> table;
    std::int64_t samples = 0;  // without those of the lost
  };
  static std::shared_ptr<const Table> table_of(const BatchSizes& sizes);
  void take_sizes();

  std::int64_t workers_;
  std::int64_t batch_size_;
  Clock whole_clocks_;                   // below it all workers have an iteration
  std::optional<BatchBalance> balance_;  // none: sizes are equal
  SharedTable current_;                  // of the newest clock
  std::deque<SharedTable> tables_;
  Clock oldest_;  // that tables_ begins with
};

}  // namespace paceline::sync
