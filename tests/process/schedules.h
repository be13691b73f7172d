// Running random schedules, several at a time: each spends most of its time waiting for its own nodes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/seeds.h"

namespace paceline::testing {

// What `violations_of` returns for each seed of `range`, all of it, in any order. It is called by `at_a_time`
// threads.
inline std::vector<std::string> violations_of_all(
    const Seeds& range, int at_a_time,
    const std::function<std::vector<std::string>(std::uint64_t seed)>& violations_of) {
  std::atomic<std::uint64_t> next{range.first};
  std::mutex mutex;
  std::vector<std::string> violations;
  std::vector<std::thread> threads;
  for (int t = 0; t < at_a_time; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t seed = next++; seed < range.end(); seed = next++) {
        const std::vector<std::string> found = violations_of(seed);
        const std::lock_guard lock(mutex);
        violations.insert(violations.end(), found.begin(), found.end());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return violations;
}

}  // namespace paceline::testing
