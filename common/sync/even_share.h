// EvenShare: which iterations of the run belong to whom where everybody does as many (share: even), however
// workers go and come while it lasts. So that every iteration is done once:
//
//   - The run's iterations are a *work list*: 0, 1, 2, ... total - 1. What a lost worker leaves undone is
//     added at its end, again as iterations of the run, and so those who are there do it. The work list of a
//     run that is resumed is what is left of it (engine_state.h).
//   - A *plan* says who does what from a clock on: (first clock, base, workers). Its workers are those that
//     are there, in the order of their ranks; with K of them the i-th does the iteration at place
//     base + (c - first) K + i at clock c. The first plan is (0, 0, all who are there). With all K workers of
//     the run there, rank r then does iteration c K + r at clock c.
//   - Who goes or comes makes a new plan, from the first clock that nobody has begun: below it the old one
//     holds for everybody else. Its base is the first place of the list that nobody has been given.
//   - Who is at a clock below its plan has no iteration of that clock: it takes the first place that nobody
//     has been given, and the next plan begins after that. When all are given it takes its own next one.
//
//   9 iterations, A B C; all of clock 0 is done (0 1 2); A has begun clock 2 (6), B and C clock 1 (4, 5).
//   C is lost: it leaves 5 and 8.           list 0 .. 8 5 8; from clock 3 on (3, 9, A B)
//     B: clock 2 is 7, as before              A: clock 3 is place 9, iteration 5; B: place 10, iteration 8
//   Instead, C comes back first, at clock 2, having begun 1: there it takes place 9, iteration 5; the next
//   plan is (3, 10, A B C), A does 8, and for B and C nothing is left.
//
// A worker that is lost when the others have been told that nothing is left cannot be made up for.
//
// Memory: one plan for each change between the slowest and the fastest, with a number for each worker unless
// all are there; and one plan for each clock that was begun while somebody stood below its plan. Of what was
// left undone there is one piece for each of those plans that a lost worker had a part in. It is given out
// after all else, so it grows with every loss until then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/sync/iteration_range.h"

namespace paceline::sync {

// Thread: one (the engine's). A decision costs O(log plans); the first that follows a change of who is there
// looks at all workers once, and a loss at each clock by which the lost one is behind the first that nobody
// has begun. So does a worker that has no place at its clock when all are given.
class EvenShare {
 public:
  // Of `workers` at most, none of which is there yet; the work list is 0 .. total_iterations - 1.
  EvenShare(std::uint32_t workers, std::int64_t total_iterations);
  // The work list is `left`, and all begin at clock `begin`.
  EvenShare(std::uint32_t workers, const IterationRanges& left, Clock begin);

  // `worker` is there, and part of every plan from here on.
  void join(Rank worker);
  // It has done its share.
  void leave(Rank worker);
  // It is lost, standing at `clock`; `begun`: the iteration of that clock, where it was in it; `ahead`: that of the
  // next clock, where it had been given that, too.
  void lose(Rank worker, Clock clock, std::optional<std::int64_t> begun,
            std::optional<std::int64_t> ahead = std::nullopt);

  // Whether there is nothing for `worker`, which is there and stands at `clock`.
  bool done(Rank worker, Clock clock);
  // Takes its iteration; there is one (done() was false, and nothing has happened since).
  std::int64_t take(Rank worker, Clock clock);
  // Nobody stands below `clock`, or ever will.
  void forget_below(Clock clock);

  // For a checkpoint. add_not_given() adds to `left` what nobody has been given. add_given() adds what
  // `worker`, which is there, has been given of the clocks from `from` on and has not begun.
  void add_not_given(IterationRanges& left) const;
  void add_given(Rank worker, Clock from, IterationRanges& left) const;

  // The newest plan: from which clock on, from where in the work list, and of whom. `change` grows by one
  // where its workers are others than those of the one before; 0: there is no plan yet.
  struct Newest {
    std::uint64_t change = 0;
    Clock first;
    std::int64_t base = 0;
    std::vector<Rank> workers;
  };
  std::uint64_t newest_change() const { return changes_; }
  Newest newest() const;

  // Grows with what is remembered.
  std::size_t size() const { return plans_.size() + list_.size(); }

 private:
  using Places = std::vector<std::int32_t>;  // by rank: which of the plan's workers it is; -1: none
  struct Plan {
    Clock first;
    std::int64_t base = 0;
    std::int64_t end = 0;                  // of the work list
    std::int64_t workers = 0;              // K
    std::shared_ptr<const Places> places;  // null: all workers, by rank
  };
  // A piece of the work list: iterations first, first + stride, ...
  struct Piece {
    std::int64_t place = 0;
    std::int64_t first = 0;
    std::int64_t stride = 0;
    std::int64_t count = 0;
  };

  void renew();
  std::deque<Plan>::const_iterator plan_for(Clock clock) const;
  std::optional<std::int64_t> place(Rank worker, Clock clock) const;
  std::optional<std::int64_t> place(const Plan& plan, Rank worker, Clock clock) const;
  std::optional<Clock> next_own(Rank worker, Clock from) const;
  void begin_at(Rank worker, Clock clock);
  std::int64_t at(std::int64_t place) const;
  void append(std::int64_t iteration);

  std::deque<Piece> list_;   // the work list, by place, from the oldest plan on
  std::int64_t length_ = 0;  // of the work list
  std::int64_t next_ = 0;    // the first place that nobody has been given
  Clock begun_;              // the first clock that nobody has begun
  std::deque<Plan> plans_;   // by first clock; the last is for all clocks that nobody has begun
  bool overtaken_ = false;   // ... unless this is set: it is to be replaced
  std::vector<bool> there_;  // by rank
  std::int64_t count_ = 0;
  std::shared_ptr<const Places> places_;  // of those who are there ...
  bool changed_ = false;                  // ... unless this is set
  std::uint64_t changes_ = 0;             // plans of others than before
  std::vector<Clock> since_;              // by rank, once it matters: its places begin there
};

}  // namespace paceline::sync
