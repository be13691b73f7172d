// The guarantees of docs/SYNC.md, What a worker sees, over real sockets: random schedules of every policy,
// apply mode, combine mode, share, shard count, kind of optimizer, transport and encoding in which the
// counting model is exact, with jitter, nodes that finish early and nodes that leave; every single read of
// the counting model is checked, and every grant. A failure prints the seed; seeds.h says how to run that
// schedule alone.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/process/coverage.h"
#include "tests/process/random_schedule.h"
#include "tests/process/schedules.h"
#include "tests/seeds.h"

namespace paceline::testing {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSchedules = 150;
constexpr std::uint64_t kBreakingSchedules = 72;
#else
constexpr std::uint64_t kSchedules = 1800;  // 50 of each way to synchronise
constexpr std::uint64_t kBreakingSchedules = 720;
#endif
constexpr int kAtATime = 8;

}  // namespace

TEST_CASE("every_read_of_every_schedule_keeps_the_guarantees") {
  const Seeds range = seeds(kSchedules);
  Coverage coverage;
  const std::vector<std::string> violations =
      violations_of_all(range, kAtATime, [&](std::uint64_t seed) { return violations_of(seed, &coverage); });
  for (const std::string& violation : violations) UNSCOPED_INFO(violation);
  REQUIRE(violations.empty());
  INFO(coverage.to_string());
  CHECK(coverage.missing() == std::vector<std::string>{});
}

// The same schedules, in which connections break, everything that is on its way over them is lost, in both
// directions, and the nodes go on over others.
TEST_CASE("every_read_keeps_the_guarantees_though_connections_break") {
  const Seeds range = seeds(kBreakingSchedules);
  Broken broken;
  Coverage coverage;
  const std::vector<std::string> violations = violations_of_all(range, kAtATime, [&](std::uint64_t seed) {
    return violations_of(seed, &coverage, Network::kBreaks, &broken);
  });
  for (const std::string& violation : violations) UNSCOPED_INFO(violation);
  REQUIRE(violations.empty());
  INFO(coverage.to_string());
  CHECK(coverage.missing_fragments() == std::vector<std::string>{});
  if (range.count < 50) return;  // so few say nothing of the rest
  CHECK(coverage.ways_in_fragments() >= 3);
  CHECK(broken.all > static_cast<std::int64_t>(range.count) / 2);
  CHECK(broken.of_servers > static_cast<std::int64_t>(range.count) / 4);  // where there are several
  CHECK(broken.ended_alone * 500 < broken.all);                           // 0 to 2 of 5,100
}

}  // namespace paceline::testing
