// What a simulated run can be resumed from, once every shard has its part of it.
#pragma once

#include <cstdint>
#include <set>

#include "common/sync/engine_state.h"
#include "tests/sim/authority_checker.h"

namespace paceline::test {

struct Checkpoint {
  sync::EngineState state;
  AuthorityChecker checker;           // as it was then
  std::set<std::int64_t> iterations;  // whose gradients are in the shards' parameters
};

}  // namespace paceline::test
