// Preparing the next state, judged: a shard under a random schedule of pieces of several workers, losses half
// way, discards, decisions that were to be expected and others, replies that are held, retained versions.
#pragma once

#include <cstdint>
#include <string>

namespace paceline::server {

struct SpeculativeApplyWalk {
  // The first of these that did not hold, empty when all did:
  //   content   after every step the parameters, the retained versions and the replies held are bit for bit
  //             what a plain loop makes of the decisions alone
  //   finite    a whole gradient is reported with its first element that is not finite, if it has one
  //   late      one that was discarded before it had come whole is reported when it has, and not held
  //   held      the gradients here are those that came, but for the decided, discarded, withdrawn and lost
  //   memory    at most blocks x (2 + retained versions) are alive
  //   image     the optimizer's state in an image is the plain loop's, bit for bit, and so it is in the image
  //             of a shard that goes on from it
  std::string violation;
  std::int64_t prepared = 0;    // blocks that took a gradient before it was decided
  std::int64_t committed = 0;   // blocks that a decision took over so
  std::int64_t not_finite = 0;  // whole gradients that were not
  std::int64_t late = 0;        // those that were discarded before
};

// Runs the schedule of `seed`. Thread: any.
SpeculativeApplyWalk walk_speculative_apply(std::uint64_t seed);

}  // namespace paceline::server
