// Gradients are sent without a copy, so a gradient's memory belongs to the transport until its last byte has
// left. These are a training thread's few buffers. A gradient is computed into one, which is then shared with
// the transport and, under SGD, with the thread cache. It is free again when both have let go of it:
//
//   transport      when ZeroMQ has sent it and the thread is granted past it; where servers read it in place
//                  (wire/sharing.h), when they have applied it
//   thread cache   when its parameters contain the gradient; or, where no other buffer is ready(), when it
//                  has replaced the gradient by its difference
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

// Who reads a gradient: the transport, which sends it, or servers, where it lies (wire/sharing.h).
enum class ReadBy { kTransport, kServers };

class GradientBuffers {
 public:
  using Buffer = std::pmr::vector<float>;

  // One buffer is computed into. A second holds the last gradient, while it leaves or while the parameters do
  // not contain it (worker/cache/thread_cache.h). A third holds the one before, where the transport is late
  // to say that it has left, or the parameters do not contain that one either.
  static constexpr std::size_t kBuffersMax = 3;
  // Servers that read a gradient in place say that they have applied it a moment after the grant that follows from it.
  // The last kForLate buffers are made only where none has come back within this time: a wait of microseconds,
  // mostly, in place of the memory of one more gradient.
  static constexpr std::size_t kForLate = 2;
  static constexpr std::chrono::milliseconds kLate{2};

  // At most `max` buffers of `floats` values each, made in `memory` (null: the heap) when they are first
  // needed. `late`: as kLate, 0 where a gradient that is still there is no late one.
  explicit GradientBuffers(std::int64_t floats, std::size_t max = kBuffersMax,
                           ReadBy read_by = ReadBy::kTransport,
                           std::shared_ptr<std::pmr::memory_resource> memory = nullptr,
                           std::chrono::nanoseconds late = kLate);

  // A buffer that nobody else holds; its content is whatever it was left with.
  // Errors: kDeadlineExceeded when all of them were held for longer than `deadline`, which the transport
  // alone does: where none is ready() the thread cache lets go of all but one at the reads of the thread that
  // calls.
  Result<std::shared_ptr<Buffer>> acquire(std::chrono::nanoseconds deadline);

  // Whether acquire() by the same thread would find a buffer without waiting. For a caller that could let go
  // of another buffer instead: where servers read gradients in place, and count them as theirs, the last
  // buffer is made for a transport that is late and for nobody else, so it does not count.
  bool ready() const;

  // How many exist: for tests of the bound.
  std::size_t made() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace paceline
