// Gradients are sent without a copy, so a gradient's memory belongs to the transport until its last byte has
// left. These are a training thread's few buffers: computed into, shared with the transport and, under SGD,
// with the thread cache, and back here when both let go: the transport once ZeroMQ has sent it and the thread
// is granted past it, or, where it is read in place (wire/sharing.h), once the servers have applied it; the
// thread cache once its parameters contain it, or its difference is kept instead, where none is ready() else.
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

  // One is being computed into while the last one leaves, or is kept for parameters that do not contain it
  // (worker/cache/thread_cache.h); the third is for a transport that is late to say that it has left, or for
  // parameters that do not contain the one before, either.
  static constexpr std::size_t kBuffersMax = 3;

  // At most `max` buffers of `floats` values each, made in `memory` (null: the heap) when they are first
  // needed.
  explicit GradientBuffers(std::int64_t floats, std::size_t max = kBuffersMax,
                           ReadBy read_by = ReadBy::kTransport,
                           std::shared_ptr<std::pmr::memory_resource> memory = nullptr);

  // A buffer that nobody else holds; its content is whatever it was left with.
  // Errors: kDeadlineExceeded when all of them were held for longer than `deadline`, which the transport
  // alone does: where none is ready() the thread cache lets go of all but one at the reads of the thread that
  // calls.
  Result<std::shared_ptr<Buffer>> acquire(std::chrono::nanoseconds deadline);

  // Whether there is such a buffer for who could do without keeping another one: acquire() by the same thread
  // does not wait then. Where servers read them, and count them as theirs, the last one is made for a
  // transport that is late, and for nobody else.
  bool ready() const;

  // How many exist: for tests of the bound.
  std::size_t made() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace paceline
