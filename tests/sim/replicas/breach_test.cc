// Each rule of two servers of a shard broken on purpose once (replica_faults.h), and seen: with every breach
// some simulated run must be judged wrong.
#include <catch2/catch.hpp>
#include <cstdio>

#include "tests/sim/ends_wrong.h"
#include "tests/sim/replicas/replicated_run.h"

namespace paceline::test {
namespace {

constexpr std::uint64_t kSeedsOfABreach = 1000;  // most are found within the first ten

bool is_found(Breach breach) {
  return ends_wrong([breach] {
    for (std::uint64_t seed = 1; seed <= kSeedsOfABreach; ++seed) {
      const Violations violations = simulate(replica_plan_of(seed), nullptr, breach);
      if (violations.empty()) continue;
      std::printf("breach %d, found by the schedule of %llu: %s\n", static_cast<int>(breach),
                  static_cast<unsigned long long>(seed), violations.front().c_str());
      return true;
    }
    return false;
  });
}

TEST_CASE("every_rule_of_replicas_broken_on_purpose_is_found") {
  for (int b = 1; b < static_cast<int>(Breach::kCount); ++b) {
    INFO("breach " << b << " of tests/sim/replicas/replica_faults.h");
    CHECK(is_found(static_cast<Breach>(b)));
  }
}

}  // namespace
}  // namespace paceline::test
