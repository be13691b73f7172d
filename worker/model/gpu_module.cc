#include "worker/model/gpu_module.h"

#include "common/cuda/load_module.h"

namespace paceline {

Result<std::shared_ptr<Gpus>> load_gpus(const GpuChoice& choice) {
  return open_in_cuda_module<Gpus>(kOpenGpus, "train.device", choice);
}

}  // namespace paceline
