// A loop and its limit in turns, one pair an iteration of Google Benchmark, and who begins a pair alternates:
// what the machine does beside them meets both. Neither waits, so the thread's processor time is, on a quiet
// machine, the time that passes, and on a busy one what others ran is not in it.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <vector>

#include "tests/bench/median.h"

namespace paceline::bench {

struct Free {
  void operator()(float* p) const { std::free(p); }
};
using Array = std::unique_ptr<float[], Free>;

// `n` floats that begin a cache line, all written to.
inline Array filled(std::int64_t n, float value) {
  const auto bytes = static_cast<std::size_t>(n) * sizeof(float);
  Array array(static_cast<float*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)));
  std::fill_n(array.get(), n, value);
  return array;
}

inline double seconds_of(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Seconds {
  double wall, cpu;
};

template <typename Work>
Seconds time_of(Work&& work) {
  const double wall = seconds_of(CLOCK_MONOTONIC);
  const double cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  work();
  benchmark::ClobberMemory();
  return {seconds_of(CLOCK_MONOTONIC) - wall, seconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu};
}

// Medians over the pairs; seconds of processor time. ratio: the limit's time by the loop's.
struct Pairs {
  double ratio, ratio_wall, loop_cpu, limit_cpu;
};

// Each is run once before the pairs. The time that Google Benchmark shows is the loop's processor time
// (UseManualTime).
template <typename Limit, typename Loop>
Pairs take_turns(benchmark::State& state, Limit&& limit, Loop&& loop) {
  limit();
  loop();
  std::vector<double> ratios, wall_ratios, loop_cpu, limit_cpu;
  for (auto _ : state) {
    const bool limit_first = ratios.size() % 2 == 0;
    Seconds of_limit{}, of_loop{};
    if (limit_first) of_limit = time_of(limit);
    of_loop = time_of(loop);
    if (!limit_first) of_limit = time_of(limit);
    state.SetIterationTime(of_loop.cpu);
    ratios.push_back(of_limit.cpu / of_loop.cpu);
    wall_ratios.push_back(of_limit.wall / of_loop.wall);
    loop_cpu.push_back(of_loop.cpu);
    limit_cpu.push_back(of_limit.cpu);
  }
  return {median(ratios), median(wall_ratios), median(loop_cpu), median(limit_cpu)};
}

}  // namespace paceline::bench
