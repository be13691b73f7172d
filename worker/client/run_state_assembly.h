// RunStateAssembly: what the run begins with, or goes on from, as its pieces come: all floats of the first vector,
// then of the next (run_state.h). Of each vector what this node trains is kept. After a connection that broke it
// comes anew, from the first piece on.
//
//   a layout of 10 floats, of which this node trains [4, 8); the parameters and one vector of the optimizer
//   pieces [0, 6) [6, 10) [10, 16) [16, 20)   ->   4 5 6 7 of the parameters, 4 5 6 7 of the other vector
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "common/params/optimizer.h"
#include "common/params/partition.h"
#include "common/status.h"
#include "common/wire/transport.h"
#include "worker/exchange/run_state.h"

namespace paceline {

// Thread: one.
class RunStateAssembly {
 public:
  // Of a layout of `size` floats, of which `trained` are kept.
  RunStateAssembly(std::int64_t size, Range trained) : size_(size), trained_(trained) {}

  // The state, with its last piece. Errors: kInvalidArgument not the next piece, or more than any run has.
  Result<std::optional<RunState>> add(const wire::NodeState& piece, const wire::Payload& payload) {
    if (piece.offset == 0) {
      state_.floats.clear();
      floats_ = 0;
    }
    const std::int64_t whole = size_ * (1 + kStateVectorsMax);
    if (piece.offset != floats_ || piece.offset + payload.count() > whole) {
      return invalid_argument("a piece of the run's state at " + std::to_string(piece.offset) +
                              ", expected " + std::to_string(floats_) + ", and at most " +
                              std::to_string(whole) + " floats");
    }
    const auto values = payload.floats();
    floats_ += std::ssize(values);
    const std::int64_t at = size_ == 0 ? 0 : piece.offset % size_;  // in its vector
    const std::int64_t begin = std::clamp(trained_.begin - at, std::int64_t{0}, std::ssize(values));
    const std::int64_t end = std::clamp(trained_.end - at, begin, std::ssize(values));
    state_.floats.insert(state_.floats.end(), values.begin() + begin, values.begin() + end);
    state_.version = piece.version;
    if (!piece.last) return std::optional<RunState>{};
    return std::optional(std::exchange(state_, {}));
  }

 private:
  const std::int64_t size_;
  const Range trained_;
  RunState state_;           // what has come of it
  std::int64_t floats_ = 0;  // so many, with those of others
};

}  // namespace paceline
