// Where a server's GPU comes from: libpaceline_cuda.so, which is loaded when a run asks for it
// (common/cuda/load_module.h), and with it the libraries that workers compute with; a server has them loaded
// and uses none but CUDA's run time.
#pragma once

#include <memory>
#include <vector>

#include "common/ids.h"
#include "common/status.h"
#include "server/store/shard_device.h"

namespace paceline::server {

// Which GPU: of those listed, as CUDA numbers them (empty: of all that there are), the shard's in turn.
//
//   devices [2, 3]     shard 0: GPU 2    shard 1: GPU 3    shard 2: GPU 2
struct ServerGpuChoice {
  std::vector<std::uint32_t> devices;
  ShardId shard;
};

// The module's function for servers: void(const ServerGpuChoice&, Result<std::shared_ptr<ServerDevice>>&).
inline constexpr const char* kOpenServerGpu = "paceline_open_server_gpu";

// Errors begin with "server.device: cuda" and say what is missing. kFailedPrecondition: the module does not
// load (cuda_module_function()). Those of cuda::open_gpu(), kUnavailable: it does, and there is no GPU that
// will do.
Result<std::shared_ptr<ServerDevice>> load_server_gpu(const ServerGpuChoice& choice);

}  // namespace paceline::server
