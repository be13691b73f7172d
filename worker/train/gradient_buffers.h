// Gradients are sent without a copy, so a gradient's memory belongs to the transport until its last byte has
// left. These are a training thread's few buffers: computed into, shared with the transport, and back here
// when it lets go: once ZeroMQ has sent it, or, where it is read in place (wire/sharing.h), once the servers
// have applied it.
//
// Thread: acquire() by the training thread; a buffer may be dropped on any thread, also after the pool is
// gone.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <vector>

#include "common/status.h"

namespace paceline {

class GradientBuffers {
 public:
  using Buffer = std::pmr::vector<float>;

  // One is being computed into while the last one leaves; the third is for a transport that is late to say
  // so, or for parameters that do not contain it yet (worker/cache/thread_cache.h).
  static constexpr std::size_t kBuffersMax = 3;

  // At most `max` buffers of `floats` values each, made in `memory` (null: the heap) when they are first
  // needed.
  explicit GradientBuffers(std::int64_t floats, std::size_t max = kBuffersMax,
                           std::shared_ptr<std::pmr::memory_resource> memory = nullptr);

  // A buffer that nobody else holds; its content is whatever it was left with.
  // Errors: kDeadlineExceeded when the transport has kept all of them for longer than `deadline`.
  Result<std::shared_ptr<Buffer>> acquire(std::chrono::nanoseconds deadline);

  // How many exist: for tests of the bound.
  std::size_t made() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace paceline
