// Back ends for mini-batches of several sizes (`train.batch_balance: speed`). A back end is built for one
// size and fills a smaller mini-batch up, which then takes as long as a whole one; so each size gets its own,
// with its own primitives and activations. Building one takes milliseconds, on a GPU, where algorithms are
// measured for it, longer, and the next step will most likely have the same size: the last used ones are
// kept, and with equal mini-batches there is one.
//
//   sizes asked for   128 128 136 136 128   ->   two are built, at the first 128 and the first 136
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>

#include "common/network/network.h"
#include "common/status.h"
#include "worker/model/backend.h"

namespace paceline {

// Thread: the one that made it, as a back end.
class BackendPerSize {
 public:
  // `make`: what they are made with. `kept`: for how many sizes, at least 1. Each costs its activations.
  BackendPerSize(MakeBackend make, NetworkSpec network, std::uint64_t seed, std::size_t kept);

  // The back end for mini-batches of exactly `samples`; valid until the next call. Errors: those of `make`.
  Result<NetworkBackend*> of(std::int64_t samples);

  // How many were built so far.
  std::int64_t built() const { return built_; }

 private:
  struct Sized {
    std::int64_t samples;
    std::unique_ptr<NetworkBackend> backend;
  };

  const MakeBackend make_;
  const NetworkSpec network_;
  const std::uint64_t seed_;
  const std::size_t kept_;
  std::list<Sized> last_used_;  // the latest first
  std::int64_t built_ = 0;
};

}  // namespace paceline
