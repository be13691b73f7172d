// What a worker that is told to compute on a GPU says where it cannot: in one line, before it reads any data.
#include <catch2/catch.hpp>

#include "worker/network_task.h"

using namespace paceline;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

TEST_CASE("without_a_gpu_the_worker_says_what_is_missing_before_it_looks_for_data") {
  RunConfig config;
  config.train.device = Device::kCuda;
  config.data.path = "/nowhere";
  const auto tasks = make_network_tasks(config);
  REQUIRE_FALSE(tasks.is_ok());
  if (tasks.status().code() == StatusCode::kNotFound) return;  // here is a GPU: it went on to the data
  CHECK_THAT(tasks.status().message(), StartsWith("train.device: cuda"));
  CHECK(tasks.status().message().find('\n') == std::string::npos);
#ifdef PACELINE_CUDA_BUILT
  CHECK(tasks.status().code() == StatusCode::kUnavailable);
  CHECK_THAT(tasks.status().message(), Contains("cudaGetDeviceCount: "));
#else
  CHECK(tasks.status().code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(tasks.status().message(), Contains("libpaceline_cuda.so") && Contains("train.device: cpu"));
#endif
}
