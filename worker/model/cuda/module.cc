// What a worker finds in libpaceline_cuda.so when its run asks for a GPU (worker/model/gpu_module.h).
#include "worker/model/cuda/open_gpus.h"
#include "worker/model/gpu_module.h"

extern "C" void paceline_open_gpus(const paceline::GpuChoice& choice,
                                   paceline::Result<std::shared_ptr<paceline::Gpus>>& opened);

void paceline_open_gpus(const paceline::GpuChoice& choice,
                        paceline::Result<std::shared_ptr<paceline::Gpus>>& opened) {
  opened = paceline::cuda::open_gpus(choice);
}
