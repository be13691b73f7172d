// What a server finds in libpaceline_cuda.so when its run asks for a GPU (server/gpu_module.h).
#include "server/cuda/open_gpu.h"
#include "server/gpu_module.h"

extern "C" void paceline_open_server_gpu(
    const paceline::server::ServerGpuChoice& choice,
    paceline::Result<std::shared_ptr<paceline::server::ServerDevice>>& opened);

void paceline_open_server_gpu(const paceline::server::ServerGpuChoice& choice,
                              paceline::Result<std::shared_ptr<paceline::server::ServerDevice>>& opened) {
  opened = paceline::cuda::open_gpu(choice);
}
