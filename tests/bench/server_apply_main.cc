// bench_server_apply [ROUNDS FLOATS…]: server_apply.h's lines, of the first GPU; default 21 rounds of 1, 10
// and 64 million floats. Exit status 3: it failed, or there is no GPU, and why is said (1 is for a figure
// that missed its target, tests/bench/once.py; these have none).
#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "server/gpu_module.h"
#include "tests/bench/server_apply.h"

int main(int argc, char** argv) {
  using namespace paceline;
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 21;
  std::vector<std::int64_t> floats;
  for (int i = 2; i < argc; ++i) floats.push_back(std::atoll(argv[i]));
  if (argc <= 2) floats = {1'000'000, 10'000'000, 64'000'000};
  if (rounds < 1 || *std::min_element(floats.begin(), floats.end()) < 1) {
    std::cerr << "usage: bench_server_apply [ROUNDS FLOATS...]\n";
    return 2;
  }
  const auto device = server::load_server_gpu({{}, ShardId(0)});
  const Status measured =
      device.is_ok() ? bench::server_apply(*device, floats, rounds, std::cout) : device.status();
  if (measured.is_ok()) return 0;
  std::cerr << "bench_server_apply: " << measured.message() << '\n';
  return 3;
}
