// What a worker that is told to compute on a GPU says where it cannot: in one line, before it reads any data.
#include <catch2/catch.hpp>

#include "worker/network_task.h"

using namespace paceline;
using Catch::Contains;
using Catch::Matchers::StartsWith;

TEST_CASE("without_a_gpu_the_worker_says_what_is_missing_before_it_looks_for_data") {
  RunConfig config;
  config.train.device = Device::kCuda;
  config.data.path = "/nowhere";
  const auto tasks = make_network_tasks(config);
  REQUIRE_FALSE(tasks.is_ok());
  const Status& status = tasks.status();
  if (status.code() == StatusCode::kNotFound) return;  // here is a GPU: it went on to the data
  CHECK_THAT(status.message(), StartsWith("train.device: cuda"));
  CHECK(status.message().find('\n') == std::string::npos);
#ifdef PACELINE_CUDA_BUILT
  CHECK(status.code() == StatusCode::kUnavailable);
  CHECK_THAT(status.message(), Contains("cudaGetDeviceCount: "));
#else
  CHECK(status.code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(status.message(), Contains("libpaceline_cuda.so") && Contains("train.device: cpu"));
#endif
}
