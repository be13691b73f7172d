// What a checkpoint holds of a shard: its content between two decisions. It shares the shard's blocks
// (copy-on-write), so taking one costs a few pointers, and training goes on while it is written: a block that
// the image holds is copied before the next update of it.
//
// A resumed run begins with every clock at the version and with empty caches. So an image does not hold the
// gradients that wait, the retained versions, the applied clocks of the workers, or the states that delay
// compensation keeps of what workers compute with: workers are sent parameters anew.
//
// Memory: while it lives, what is applied meanwhile makes a second copy of the blocks it changes: at most the
// parameters and the optimizer's state once more. One that a shard is restored from is there beside all that
// the shard has: everything twice. Thread: one for each image; it may be another one than the
// shard's.
#pragma once

#include <cstdint>

#include "common/clock.h"
#include "common/params/blocks.h"
#include "common/params/optimizer.h"

namespace paceline::server {

struct ShardImage {
  Version version = kNoVersion;
  Revision revision = kNoRevision;
  std::int64_t decisions = 0;  // applied since the run's first start: the sequence number of the next
  BlockRange parameters;
  OptimizerImage optimizer;
  BlockRange mean_square;  // delay compensation, adaptive; else empty
};

}  // namespace paceline::server
