// How fast this machine moves memory at the moment: what every figure of the parameter path is to be read
// beside.
//
//   bench_memory_bandwidth [MEGABYTES]     default 64; prints {"memcpy_gb_per_s": …, …}
//
// memcpy counts the bytes copied (each is read once and written once); fresh is memcpy into memory that
// nobody has touched, where page faults cost more than copying; triad is STREAM's a = b + s * c, counting the
// 12 bytes an element that it loads and stores. One thread, medians of 15.
#include <sys/mman.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <vector>

#include "tests/bench/median.h"

namespace {

constexpr int kRuns = 15;

double seconds_of(const std::function<void()>& work) {
  const auto began = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

double median_of(const std::function<double()>& measure) {
  std::vector<double> seconds;
  for (int k = 0; k < kRuns; ++k) seconds.push_back(measure());
  return paceline::bench::median(seconds);
}

void triad(float* __restrict a, const float* __restrict b, const float* __restrict c, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) a[i] = b[i] + 3.0F * c[i];
}

}  // namespace

int main(int argc, char** argv) {
  const long megabytes = argc > 1 ? std::atol(argv[1]) : 64;
  if (argc > 2 || megabytes < 1) {
    std::cerr << "usage: bench_memory_bandwidth [MEGABYTES]\n";
    return 2;
  }
  const std::size_t bytes = static_cast<std::size_t>(megabytes) * 1'000'000;
  const std::size_t floats = bytes / sizeof(float);
  std::vector<float> a(floats, 1.0F), b(floats, 2.0F), c(floats, 3.0F);
  const double warm =
      median_of([&] { return seconds_of([&] { std::memcpy(a.data(), b.data(), floats * sizeof(float)); }); });
  const double fresh = median_of([&] {
    void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
      std::perror("bench_memory_bandwidth: mmap");
      std::exit(1);
    }
    const double took = seconds_of([&] { std::memcpy(pages, b.data(), floats * sizeof(float)); });
    munmap(pages, bytes);
    return took;
  });
  const double sums =
      median_of([&] { return seconds_of([&] { triad(a.data(), b.data(), c.data(), floats); }); });
  if (a[floats / 2] != 11.0F) return std::cerr << "bench_memory_bandwidth: the triad is wrong\n", 1;
  const double gigabytes = 1e-9 * static_cast<double>(bytes);
  std::cout << "{\"benchmark\": \"memory_bandwidth\", \"mb\": " << megabytes
            << ", \"memcpy_gb_per_s\": " << gigabytes / warm << ", \"fresh_gb_per_s\": " << gigabytes / fresh
            << ", \"triad_gb_per_s\": " << 3 * gigabytes / sums << "}" << std::endl;
  return 0;
}
