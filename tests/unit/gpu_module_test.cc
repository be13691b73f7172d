// What a worker that is told to compute on a GPU, and a server that is told to apply on one, say where they
// cannot: in one line, before a worker reads any data.
#include "server/gpu_module.h"

#include <catch2/catch.hpp>

#include "worker/network_task.h"

using namespace paceline;
using Catch::Contains;
using Catch::Matchers::StartsWith;

namespace {

void check_refusal(const Status& status, const std::string& key) {
  CHECK_THAT(status.message(), StartsWith(key + ": cuda"));
  CHECK(status.message().find('\n') == std::string::npos);
#ifdef PACELINE_CUDA_BUILT
  CHECK(status.code() == StatusCode::kUnavailable);
  CHECK_THAT(status.message(), Contains("cudaGetDeviceCount: "));
#else
  CHECK(status.code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(status.message(), Contains("libpaceline_cuda.so") && Contains(key + ": cpu"));
#endif
}

}  // namespace

TEST_CASE("without_a_gpu_the_worker_says_what_is_missing_before_it_looks_for_data") {
  RunConfig config;
  config.train.device = Device::kCuda;
  config.data.path = "/nowhere";
  const auto tasks = make_network_tasks(config);
  REQUIRE_FALSE(tasks.is_ok());
  if (tasks.status().code() == StatusCode::kNotFound) return;  // here is a GPU: it went on to the data
  check_refusal(tasks.status(), "train.device");
}

TEST_CASE("without_a_gpu_the_server_says_what_is_missing") {
  const auto gpu = server::load_server_gpu({{}, ShardId(0)});
  if (!gpu.is_ok()) check_refusal(gpu.status(), "server.device");
}
