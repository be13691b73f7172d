// What happens to a node as a whole, whoever computes there and whatever the policy: slow periods and pauses.
// Two alternating renewal processes in virtual time, each a two-state Markov process with exponentially
// distributed lengths: normal | slow, and running | paused. Their periods are numbered, and each period's
// length is a function of seed, node and number, so the node's weather is the same under every policy.
//
// Work of w seconds that begins at t ends when the speed has added up to w: 1 normally, 1 / slow_factor in a
// slow period, 0 in a pause.
//
//   slow from 10 s to 14 s, factor 2
//     3 s of work begun at 9 s: 1 s of work in 1 s, then 2 s of work in 4 s; done at 14 s
#pragma once

#include <chrono>
#include <cstdint>

#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/instant.h"

namespace paceline::simulate {

// One of the two processes, as seen by somebody whose time only moves on. Begins in its ordinary state.
class Periods {
 public:
  enum class Kind : std::uint32_t { kSlow = 0, kPause = 1 };
  // Mean lengths of the ordinary state and of the other one.
  Periods(Kind kind, std::uint64_t seed, NodeId node, double ordinary_ns, double other_ns);

  // Moves to `now`, which is not before the last one.
  void move_to(Ticks now);
  // At that time: whether it is the other state, and when that ends.
  bool other() const { return number_ % 2 == 1; }
  Ticks until() const { return until_; }

 private:
  void draw();

  std::uint64_t seed_;
  std::uint32_t node_;
  Kind kind_;
  double mean_ns_[2];
  std::uint64_t number_ = 0;
  Ticks until_;
};

// A node's speed, as one of its workers meets it. Thread: one.
class NodeSpeed {
 public:
  NodeSpeed(const SimulatedCompute& compute, std::uint64_t seed, NodeId node);

  // Whether `compute` has slow periods or pauses at all; without them work takes its length.
  static bool varies(const SimulatedCompute& compute);

  // When `work` begun at `start` is done, at the end of time at the latest. Starts only move on.
  Ticks done(Ticks start, std::chrono::nanoseconds work);

 private:
  bool slows_;
  bool pauses_;
  double slow_factor_;
  Periods slow_;
  Periods pause_;
};

}  // namespace paceline::simulate
