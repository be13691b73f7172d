// The main of gpu_test: Catch2's, where there is a GPU. Where there is none it says so and ends with status
// 77, which ctest calls skipped.
#include <iostream>

#include "tests/catch_runner.h"
#include "worker/model/cuda/open_gpus.h"

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  const auto gpus = paceline::cuda::open_gpus({});
  if (!gpus.is_ok()) {
    std::cerr << "gpu_test: skipped: " << gpus.status().message() << '\n';
    return gpus.status().code() == paceline::StatusCode::kUnavailable ? kSkipped : 1;
  }
  return paceline::testing::run_tests(argc, argv);
}
