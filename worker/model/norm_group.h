// Batch norm over a group of workers (train.batch_norm_group; Ying, Kumar, Chen, Wang and Cheng, "Image classification
// at supercomputer scale", 2018, section 3.2): each computes a part of a larger mini-batch, and every batch_norm goes
// by the mean and variance of all parts together. So the group's gradient, its parts weighed by samples, is that of one
// worker with the whole.
//
//   forward    each says n, mean and sum of squares about it of its part; all combine them in the order of members
//              (Chan, Golub and LeVeque 1979)
//   backward   each says n, sum d(out) and sum d(out) z of its part, z the normalised input; all add n times these up
//
// Two workers, one value a sample:  {1, 3} -> 2, 2, 2      {5} -> 1, 5, 0      together 3, mean 3, squares 8
//
// A part's gradient is that of the mean over its own n samples. What the others' losses owe to a member's values comes
// with their sums, n times as heavy, and is divided by its own n:
//
//   d(x) = gamma / deviation (d(out) - (sum over members n sum d(out) + z sum over members n sum d(out) z) / (n m))
//
// m: values of a channel in the whole group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/status.h"

namespace paceline {

// What a member says of a layer: its samples, and two numbers a channel.
struct NormPart {
  std::int64_t samples = 0;
  std::vector<float> first;   // means; sum d(out)
  std::vector<float> second;  // sums of squares about them; sum d(out) z
};

enum class NormPass { kForward, kBackward };

// The other members of a worker's group. Thread: one.
class NormGroup {
 public:
  virtual ~NormGroup() = default;

  // Gives the others `own` and waits for theirs; all members ask for the same layers and passes in the same order.
  // In the order of members, `own` among them. Where that fails there is `own` alone, then and from then on, and
  // status() says why: whoever computes asks at the end of its step.
  virtual std::vector<NormPart> exchange(std::size_t layer, NormPass pass, NormPart own) = 0;
  // OK, or why the group is no more.
  virtual Status status() const = 0;
};

// Of all members together, by channel: `places` values of a channel in each sample.
struct NormStatistics {
  std::int64_t values = 0;  // of a channel
  std::vector<double> mean;
  std::vector<double> variance;  // divided by `values`
};
NormStatistics combined(std::span<const NormPart> parts, std::int64_t places);

// What a member with `samples` takes from each d(out), by channel: first / (its samples x all values), and z times
// second by the same.
struct NormCorrection {
  std::vector<double> first;
  std::vector<double> second;
};
NormCorrection correction_of(std::span<const NormPart> parts, std::int64_t samples, std::int64_t places);

}  // namespace paceline
