// Each rule broken on purpose once (common/sync/test_hooks.h), and seen: with every mutant some simulated run
// must be judged wrong, and with none none. The core is compiled into this program a second time, with the
// mutants in it; each mutant runs in a process of its own, since an assertion of the core is as good a find
// as a checker's word.
#include <catch2/catch.hpp>
#include <cstdio>

#include "common/sync/test_hooks.h"
#include "tests/sim/ends_wrong.h"
#include "tests/sim/resumed_run.h"
#include "tests/sim/world.h"

namespace paceline::test {
namespace {

constexpr std::uint64_t kSeeds = 1500;  // most mutants are found within the first ten

// Its bytes are no part of the core (tests/unit/checkpoint_state_test.cc).
Result<sync::EngineState> as_it_is(const sync::EngineState& state) { return state; }

bool is_found(sync::Mutant mutant) {
  return ends_wrong([mutant] {
    sync::active_mutant = mutant;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      Violations violations = simulate(plan_of(seed));
      if (violations.empty()) violations = run_and_resume(resumed_plan_of(seed), as_it_is).violations;
      if (violations.empty()) continue;
      std::printf("mutant %2d: seed %llu: %s\n", static_cast<int>(mutant),
                  static_cast<unsigned long long>(seed), violations.front().c_str());
      return true;
    }
    return false;
  });
}

TEST_CASE("every_rule_broken_on_purpose_is_found_by_a_checker") {
  for (int m = 1; m < static_cast<int>(sync::Mutant::kCoreCount); ++m) {
    INFO("mutant " << m << " of common/sync/test_hooks.h");
    CHECK(is_found(static_cast<sync::Mutant>(m)));
  }
}

TEST_CASE("what_has_come_and_is_said_again_counts_once") {
  CHECK(is_found(sync::Mutant::kRepeatedPushTaken));
  CHECK(is_found(sync::Mutant::kLateHeld));
}

TEST_CASE("what_was_lost_and_is_not_said_again_leaves_somebody_waiting") {
  CHECK(is_found(sync::Mutant::kNotSaidAgain));   // by a node: its gradient
  CHECK(is_found(sync::Mutant::kNotAskedAgain));  // ... or for parameters
}

TEST_CASE("the_same_program_without_a_mutant_finds_nothing") { CHECK_FALSE(is_found(sync::Mutant::kNone)); }

}  // namespace
}  // namespace paceline::test
