// The guarantees of DESIGN 3.2 over real sockets: random schedules of every policy, apply mode, combine mode,
// share, shard count and encoding in which the counting model is exact, with jitter, nodes that finish early and nodes that leave; every single read of the
// counting model is checked. A failure prints the seed; to run that schedule alone, set kFirstSeed to it and
// kSchedules to 1.
#include <atomic>
#include <catch2/catch.hpp>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/process/random_schedule.h"

namespace paceline::testing {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSchedules = 150;
#else
constexpr std::uint64_t kSchedules = 2000;
#endif
constexpr std::uint64_t kFirstSeed = 1;
constexpr int kAtATime = 8;

}  // namespace

// Several schedules run at a time: each spends most of its time waiting for its own nodes.
TEST_CASE("every_read_of_every_schedule_keeps_the_guarantees") {
  std::atomic<std::uint64_t> next{kFirstSeed};
  std::mutex mutex;
  std::vector<std::string> violations;
  std::vector<std::thread> threads;
  for (int t = 0; t < kAtATime; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t seed = next++; seed < kFirstSeed + kSchedules; seed = next++) {
        const std::vector<std::string> found = violations_of(seed);
        const std::lock_guard lock(mutex);
        violations.insert(violations.end(), found.begin(), found.end());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& violation : violations) UNSCOPED_INFO(violation);
  REQUIRE(violations.empty());
}

}  // namespace paceline::testing
