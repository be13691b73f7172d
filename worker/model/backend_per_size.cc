#include "worker/model/backend_per_size.h"

#include <algorithm>
#include <utility>

namespace paceline {

BackendPerSize::BackendPerSize(MakeBackend make, NetworkSpec network, std::uint64_t seed, std::size_t kept)
    : make_(std::move(make)), network_(std::move(network)), seed_(seed), kept_(kept) {}

Result<NetworkBackend*> BackendPerSize::of(std::int64_t samples) {
  const auto found = std::find_if(last_used_.begin(), last_used_.end(),
                                  [samples](const Sized& sized) { return sized.samples == samples; });
  if (found != last_used_.end()) {
    last_used_.splice(last_used_.begin(), last_used_, found);
  } else {
    // First out, then in: no more than kept_ are there at any time.
    if (last_used_.size() == kept_) last_used_.pop_back();
    PACELINE_ASSIGN_OR_RETURN(auto backend, make_(network_, samples, seed_));
    last_used_.push_front({samples, std::move(backend)});
    ++built_;
  }
  return last_used_.front().backend.get();
}

}  // namespace paceline
