#include "server/gpu_module.h"

#include "common/cuda/load_module.h"

namespace paceline::server {

Result<std::shared_ptr<ServerDevice>> load_server_gpu(const ServerGpuChoice& choice) {
  return open_in_cuda_module<ServerDevice>(kOpenServerGpu, "server.device", choice);
}

}  // namespace paceline::server
