// A run that is saved at random moments, thrown away and resumed, as often as `crashes` says, or stopped first: the
// engine alone, with workers that do the pieces of their iterations in any order, are lost and come back. Judged by
// a ResumedAccount.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "common/status.h"
#include "common/sync/engine_config.h"
#include "common/sync/engine_state.h"
#include "tests/sim/resumed_account.h"

namespace paceline::test {

// What becomes of a state between the save and the resume.
using ThroughAFile = std::function<Result<sync::EngineState>(const sync::EngineState&)>;

struct ResumedPlan {
  std::uint64_t timing = 0;  // the seed of all that depends on time
  sync::EngineConfig config;
  int crashes = 0;
  int stops =
      0;  // of the crashes at most so many are stops in order, whose last version the run goes on from
  bool losses = false;
  double nan_chance = 0.0;
};

// The configuration of plan_of(seed), with other faults.
ResumedPlan resumed_plan_of(std::uint64_t seed);

struct ResumedOutcome {
  Violations violations;
  std::vector<LoggedIteration> log;
  int crashes = 0;      // that happened
  int stops = 0;        // of them, stops
  int ahead = 0;        // messages of iterations that were granted ahead, while the one before was not whole
  int lost_before = 0;  // saves resumed from, at which somebody had been lost
  bool applied_ahead = false;  // one of them had gradients of clocks beyond its version
};

ResumedOutcome run_and_resume(const ResumedPlan& plan, const ThroughAFile& through_a_file);

}  // namespace paceline::test
