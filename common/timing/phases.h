// The nine phases of an iteration (DTSSP paper, Fig. 9 and 10; docs/ARCHITECTURE.md, The nine phases), named
// exactly so everywhere. Every instant of a training thread between its first grant and its last reply
// belongs to one of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace paceline {

enum class Phase : std::uint8_t {
  kBatch,         // getting the mini-batch
  kComputeGrads,  // gradient from the thread cache's parameters
  kApplyGrads,    // applying it to the thread cache
  kPsApplyGrads,  // sending it and having it applied to the global parameters
  kStep,          // building and parsing the clock report
  kBarrier,       // held because ahead of the threshold
  kPsParam,       // getting parameters from the server
  kPCacheParam,   // from the process cache: copy and re-apply
  kTCacheParam,   // from the thread cache
};

inline constexpr std::size_t kPhaseCount = 9;
inline constexpr std::array<const char*, kPhaseCount> kPhaseNames = {
    "BATCH",   "COMPUTE_GRADS", "APPLY_GRADS",   "PS_APPLY_GRADS", "STEP",
    "BARRIER", "PS_PARAM",      "P_CACHE_PARAM", "T_CACHE_PARAM"};

constexpr const char* name_of(Phase phase) { return kPhaseNames[static_cast<std::size_t>(phase)]; }

}  // namespace paceline
