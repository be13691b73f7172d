// WorkShare: which iteration of the run a worker does next, and whether there is one. `iteration` is its
// place in the run and decides its mini-batch: positions [iteration x batch_size, + batch_size) of the
// concatenated epoch permutations (docs/SYNC.md, Who does which iteration).
//   even  the worker of rank r at clock c does iteration cK + r; each does total / K, the first total mod K
//         one more. What a lost worker leaves undone the others do. Who comes later has a share, too
//         (even_share.h).
//         10 iterations, 4 workers: ranks 0 and 1 do three (0 4 8, 1 5 9), ranks 2 and 3 two (2 6, 3 7).
//   pool  whoever is granted takes the next one. What a lost worker did not complete is given out again,
//         before anything new.
//
// Fixed: each clock is cut for all workers of the run, whoever is there; the even share of a lost worker is
// done by nobody. So it is with batches by speed (batch_plan.h) and with backup workers.
//
// With backup workers (backup.h) `total_iterations` is still the number of gradients to be applied, N of them
// a clock. even: clock c is for the N of them that are due then, or fewer at the last one, and for b workers
// more: ranks below due + b. What a late worker computed its gradient from has its place in the order all the
// same, and nobody else computes it. pool: it is given out again, as a lost worker's is.
//         10 gradients, N = 3 of 4 workers: clocks 0 to 2 take three, clock 3 takes one, of ranks 0 and 1.
// Under both a clock waits for no more gradients than the run has left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>

#include "common/clock.h"
#include "common/ids.h"
#include "common/sync/even_share.h"
#include "common/sync/iteration_range.h"
#include "common/sync/modes.h"

namespace paceline::sync {

// Who may be there: the same workers to the end, but for those that are lost; or others, too.
enum class Membership { kFixed, kComeAndGo };

// Thread: one.
class WorkShare {
 public:
  // `per_clock`: how many gradients close a clock, N; the number of workers where all are waited for.
  WorkShare(Share kind, Membership membership, Cluster cluster, std::int64_t per_clock,
            std::int64_t total_iterations);

  // The run is resumed at clock `begin`, before anybody is there: what is left to do is `left`; fixed and
  // even: all from that clock on, whatever `left` is.
  void resume(const IterationRanges& left, Clock begin);

  // `worker` is there. Before it is, and once it is not, it is asked about no more.
  void join(Rank worker);
  // It has no further iteration to do.
  void leave(Rank worker);
  // It is lost, standing at `clock`; `begun`: the iteration that it was in and did not complete; `ahead`: likewise
  // the one after that, where it was granted that as well.
  void lose(Rank worker, Clock clock, std::optional<std::int64_t> begun,
            std::optional<std::int64_t> ahead = std::nullopt);
  // Nobody stands below `clock` any more.
  void forget_below(Clock clock);

  // Whether there is nothing left for a worker of rank `worker` that stands at `clock`.
  bool done(Rank worker, Clock clock);
  // Takes the next iteration; there must be one (done() is false).
  std::int64_t take(Rank worker, Clock clock);
  // How many gradients close the clock: N, or what is left of the run. Not above 0 after the last clock.
  // `used_up`: how many iterations were applied in the clocks before, or done without a gradient in any.
  // Backup workers only.
  std::int64_t due(Clock clock, std::int64_t used_up) const;
  // The worker that took `iteration` was late. Under even it is not done by anybody.
  void give_back(std::int64_t iteration);

  // For a checkpoint (not fixed and even). Each adds to `left`:
  //   add_not_given()   what nobody has been given, or what was given back
  //   add_given()       what `worker`, which is there, has been given of the clocks from `from` on and has
  //                     not taken
  void add_not_given(IterationRanges& left) const;
  void add_given(Rank worker, Clock from, IterationRanges& left) const;

  // Of an even share in which workers come and go, the newest plan (even_share.h); of others no change.
  std::uint64_t newest_change() const { return even_ ? even_->newest_change() : 0; }
  EvenShare::Newest newest() const { return even_ ? even_->newest() : EvenShare::Newest{}; }

  // Grows with what is remembered.
  std::size_t size() const { return returned_.size() + (even_ ? even_->size() : 0); }

 private:
  Share kind_;
  std::int64_t workers_;
  std::int64_t per_clock_;
  std::int64_t total_;
  std::optional<EvenShare> even_;  // even, not fixed
  std::int64_t next_ = 0;          // pool
  // pool: at most one per worker, lost or late; and of a resumed run the gaps in what was done before.
  std::set<std::int64_t> returned_;
};

}  // namespace paceline::sync
