// Which sample stands at which place of the run. The training set is shuffled anew in every epoch; the
// epochs' permutations laid one after another are the positions 0, 1, 2, ..., and with mini-batches of one
// size n iteration g takes the positions [g n, g n + n) (docs/DATA.md, common/sync/batch_plan.h). So the
// workers share the data out without talking to each other, and K workers' mini-batches of one clock are
// exactly one worker's K-fold mini-batch.
//
// Worked example: 5 samples, n = 2. Epoch 0's permutation is, say, 3 1 4 0 2 and epoch 1's is 2 0 1 4 3:
//   position   0 1 | 2 3 | 4 5 | 6 7 | 8 9
//   sample     3 1 | 4 0 | 2 2 | 0 1 | 4 3      iteration 2 crosses the border of the epochs
//
// The permutation of an epoch is never stored. It is a keyed bijection of 0 .. N-1, evaluated at one place: a
// Feistel network (its rounds are Philox, common/random.h) over the next power of two, walked along its cycle
// until it falls inside 0 .. N-1 (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002,
// sections 4 and 5). So there is no table per epoch to hold, share, lock or bound, however far apart the
// workers' epochs are.
//
// With fixed parts (data.parts) there is such a row of epochs for each node, of its own samples alone: node i of
// n has samples i, i + n, i + 2n, ... A worker of rank r of K still takes every K-th round of positions, so
// position and node are a function of each other:
//
//   2 nodes of one worker, rounds of 2 samples, 5 samples: node 0 has 0 2 4, node 1 has 1 3
//   position   0 1 | 2 3 | 4 5 | 6 7 | 8 9
//   node       0     1     0     1     0
//   sample     2 0 | 3 1 | 4 0 | 1 3 | 4 2      node 0's epoch 0 is 2 0 4, its epoch 1 0 4 2
#pragma once

#include <cstdint>

namespace paceline {

// A sample of the data set, in an epoch: the keys of its augmentation and dropout.
struct SampleRef {
  std::int64_t epoch = 0;
  std::int64_t sample = 0;
  bool operator==(const SampleRef&) const = default;
};

// Whose are which samples. One node: all samples are everybody's.
struct FixedParts {
  std::int64_t nodes = 1;
  std::int64_t workers = 1;  // of each node
  std::int64_t round = 1;    // samples that a worker takes in a row: its mini-batches between two exchanges
};

// Thread: immutable; any.
class Sampler {
 public:
  // samples: size of the training set, at least one for each node. Same seed, same order.
  Sampler(std::int64_t samples, std::uint64_t seed, const FixedParts& parts = {});

  // What stands at `position` >= 0 of the concatenated permutations. O(1): below two tries of eight Philox
  // blocks each on average, whatever the position (about a microsecond).
  SampleRef at(std::int64_t position) const;

  std::int64_t samples() const { return samples_; }

 private:
  std::uint64_t permute(std::int64_t epoch, std::int64_t node, std::uint64_t index, std::int64_t size) const;

  std::int64_t samples_;
  std::uint64_t seed_;
  FixedParts parts_;
  int left_bits_;  // the Feistel network's halves; left_bits_ + right_bits_ bits hold a part's samples - 1
  int right_bits_;
};

}  // namespace paceline
