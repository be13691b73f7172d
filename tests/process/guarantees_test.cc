// The guarantees of DESIGN 3.2 over real sockets: random schedules of every policy, apply mode, combine mode,
// share, shard count, kind of optimizer and encoding in which the counting model is exact, with jitter, nodes
// that finish early and nodes that leave; every single read of the counting model is checked, and every
// grant. A failure prints the seed; seeds.h says how to run that schedule alone.
#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/process/random_run.h"
#include "tests/process/random_schedule.h"
#include "tests/process/seeds.h"

namespace paceline::testing {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSchedules = 150;
#else
constexpr std::uint64_t kSchedules = 1800;  // 50 of each combination
#endif
constexpr int kAtATime = 8;

}  // namespace

// Several schedules run at a time: each spends most of its time waiting for its own nodes.
TEST_CASE("every_read_of_every_schedule_keeps_the_guarantees") {
  const Seeds range = seeds(kSchedules);
  std::atomic<std::uint64_t> next{range.first};
  std::mutex mutex;
  std::vector<std::string> violations;
  std::array<std::uint64_t, kCombinations> done{};  // of each way to synchronise on so many shards
  std::vector<std::thread> threads;
  for (int t = 0; t < kAtATime; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t seed = next++; seed < range.end(); seed = next++) {
        const std::vector<std::string> found = violations_of(seed);
        const std::lock_guard lock(mutex);
        violations.insert(violations.end(), found.begin(), found.end());
        ++done[place_of(combination_of(seed))];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& violation : violations) UNSCOPED_INFO(violation);
  REQUIRE(violations.empty());
  CHECK(*std::min_element(done.begin(), done.end()) >= range.count / kCombinations);
}

}  // namespace paceline::testing
