// Delay compensation in a shard, judged: workers that are sent states, compute with what they have and their
// own gradients on top, and push; decisions in any order among workers. A plain loop follows, which knows
// what each computed with.
#pragma once

#include <cstdint>
#include <string>

namespace paceline::server {

struct CompensationWalk {
  // The first of these that did not hold, empty when all did:
  //   content   after every decision the parameters are bit for bit g + lambda g g (now - computed with),
  //             applied by SGD, in a plain loop
  //   memory    at most two states for each gradient that is held, and three, are kept for a worker
  std::string violation;
  std::int64_t decided = 0;
  std::int64_t compensated = 0;  // whose parameters had changed since
  std::int64_t own_on_top = 0;   // computed with own gradients besides the state
};

// Runs the schedule of `seed`. Thread: any.
CompensationWalk walk_compensation(std::uint64_t seed);

}  // namespace paceline::server
