// DSSP, dynamic SSP: a lead of s_L is granted to everybody, and up to s_U where the push times promise that
// little waiting follows. Zhao, An, Liu and Chen, "Dynamic stale synchronous parallel distributed training
// for deep learning", ICDCS 2019, algorithms 1 (server) and 2 (synchronisation controller).
//
// A worker whose lead exceeds s_L waits, as under SSP(s_L), unless it is the fastest: then the controller
// looks for the moment to wait at. From the last two pushes of the fastest and of the slowest it predicts the
// next ones and grants r* extra iterations, after which the fastest comes nearest to a push of the slowest:
//   fastest: pushed at 9 s and 10 s    -> next 10 11 12 13 14 (r = 0 1 2 3 4)
//   slowest: pushed at 6.5 s and 9 s   -> next 11.5 14 16.5
//   room for four or more extra        -> r* = 4: both push at 14 s
//   room for three                     -> r* = 1: 11 s is half a second from 11.5 s. So is 12 s (r = 2), but
//                                         fewer extra iterations are less stale
// It may begin these whatever the slowest does; then the same question is asked again. No lead exceeds s_U at
// a grant: r* is at most s_U - lead + 1.
//
// Written from memory of the paper, whose text could not be had; what others published of its algorithms
// agrees but for the room and for one iteration. Left open there: the slowest is, of those at
// the min clock, the last to have got there; a worker that has not pushed twice (the begin of training counts
// as once) predicts nothing, so the fastest waits for it. There r_max is the same at every call; ours keeps
// the lead itself within s_U. And there r* + 1 iterations follow before the next question, since the first is
// not counted off; here r*, up to the push that was predicted to meet the slowest's.
//
// There as here an interval is that between two pushes, whatever lies in it. So that of a fastest which was
// held contains the hold, while the extra iterations that it predicts would not be held:
//   fastest    takes a = 1 s. Held for one push it comes every 1.6 s, 1 s after the slowest: at 0, and it is
//              predicted at 1.6 3.2
//   slowest    takes L = 1.6 s, predicted at 0.6 2.2
//   r* = 0, and so for ever
// From then on DSSP is SSP(s_L): after a hold for one push the fastest is given more only where L > 2 a.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "common/instant.h"
#include "common/sync/policy.h"

namespace paceline::sync {

// When a worker's last two clocks moved.
struct PushTimes {
  Ticks before;
  Ticks last;
};

// r*, 0 to `most`: the fastest's push, counted from its last, that is nearest to one of the next `most` + 1
// of the slowest, both going on at the intervals of their last two. Of several the first. O(`most`).
std::int64_t extra_iterations(const PushTimes& fastest, const PushTimes& slowest, std::int64_t most);

class Dssp final : public Policy {
 public:
  explicit Dssp(const PolicyConfig& config) : low_(config.threshold_min), high_(config.threshold_max) {}

  // s_L: what everybody has.
  Threshold threshold() const override { return Threshold(low_); }
  // What its extra iterations need, while it has some left.
  Threshold threshold_for(Rank worker, Clock clock) const override;
  void on_clock(Rank worker, Clock clock, Ticks now, const ClockTable& clocks) override;
  void on_departure(Rank worker) override;
  std::size_t state_size() const override;

 private:
  struct Worker {
    bool live = false;
    Clock clock;
    PushTimes pushes;
    bool paced = false;       // it has pushed since the policy began, so it has an interval
    Clock extra_until{-1};    // it may begin iterations up to this clock ...
    std::int64_t raised = 0;  // ... under this threshold
  };

  Worker& slowest(Clock min_clock);

  std::int64_t low_, high_;
  std::vector<Worker> workers_;  // by rank
  // Who came to each clock from base_ on, in order. Who has gone on since is taken out when it is in the way;
  // so a step costs O(1) amortised and the memory is workers x clocks spanned, which are at most s_U + 2.
  std::deque<std::vector<Rank>> arrivals_;
  std::int64_t base_ = 0;
};

}  // namespace paceline::sync
