// CacheVectors: the memory of a thread cache and the passes over it (worker/cache/thread_cache.h has the
// books: which pass, when). Abstract, so that they may lie where a task computes: on a GPU a parameter vector
// in the host's memory would cross the bus twice an iteration. In the host's memory they are
// worker/cache/host_vectors.h.
//
// These are the parameter vector, the optimizer's state, and the own updates that are kept, oldest first:
// differences, then gradients. An update's *place* is its number among both:
//
//   differences D0 D1, gradients G2 G3:   places 0 1 2 3, the newest is G3
//
// A pass may go on when its call has returned, as on a GPU; passes are made in the order of their calls. So
// it may also fail later: no pass says how it went, status() does. After a failure passes do nothing, but
// the books of what is kept stay right.
//
// Thread: the training thread only.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/params/partition.h"
#include "common/params/shared_floats.h"
#include "common/status.h"

namespace paceline {

class CacheVectors {
 public:
  virtual ~CacheVectors() = default;

  // The whole parameter vector, valid until the next pass; empty where it is not in the host's memory.
  virtual std::span<const float> parameters() const = 0;

  // Parameters from `begin` on become `values`, with the own updates at the places `lacking`, which rise,
  // made on them in that order. `values` may be held until they have been read.
  virtual void take_over(std::int64_t begin, SharedFloats values, std::span<const std::size_t> lacking) = 0;
  // Waits until all that may be held only until it has been read has been, and holds it no more. Where a
  // server has lent it, it waits for it.
  virtual void let_go() {}

  // SGD: becomes the newest own update, a step of this rate. The parameters stay as they are. Held until it
  // is dropped or a difference, unless there is a copy of it.
  virtual void keep_gradient(SharedFloats gradient, double rate) = 0;
  // Makes the newest own update, a gradient, on the parameters of `range`, in place.
  virtual void apply_newest(Range range) = 0;
  // The oldest gradient becomes the newest difference, and is let go of. Under weight decay it takes its
  // share of the parameters that are here.
  virtual void make_difference() = 0;

  // Momentum, Adam: a step on all parameters, of which `scale` counts. What it changes is kept as the newest
  // difference. `gradient` may be held until it has been read.
  virtual void apply_with_state(SharedFloats gradient, double learning_rate, double scale) = 0;

  // Lets go of the own update at place 0.
  virtual void drop_oldest() = 0;

  virtual std::size_t differences() const = 0;
  virtual std::size_t gradients() const = 0;
  // How many of these are held in the buffers that they came in, which make_difference() would free.
  virtual std::size_t gradients_held() const { return gradients(); }

  // For how long passes went on when steps computed already, since it was taken last: time that is not theirs.
  virtual std::chrono::nanoseconds take_device_overlap() { return {}; }

  // What has failed first, of the passes made so far; parameters() and own updates are worth nothing then.
  virtual Status status() const = 0;
};

}  // namespace paceline
