// The CUDA back end of one thread and one size of mini-batch: stages vectors to and from the GPU around a
// program (program.h).
#pragma once

#include <cstdint>
#include <memory>

#include "common/config/run_config.h"
#include "common/network/network.h"
#include "common/status.h"
#include "worker/model/backend.h"
#include "worker/model/cuda/algorithms.h"
#include "worker/model/cuda/gpu_thread.h"
#include "worker/model/cuda/thread_model.h"
#include "worker/model/norm_group.h"

namespace paceline::cuda {

// Contract as make_backend (worker/model/backend.h), but that gradient() and evaluate() take no parameters,
// an empty span, where `model` has them on the GPU; gradient() leaves there where the gradient is. Errors
// also those of the GPU's memory (kResourceExhausted). Thread: the one that opened `gpu`. `cache` is only
// used in this call. `norm_group`: Gpus::for_thread()'s.
Result<std::unique_ptr<NetworkBackend>> make_cuda_backend(std::shared_ptr<const GpuThread> gpu,
                                                          std::shared_ptr<ThreadModel> model,
                                                          AlgorithmCache& cache, NetworkSpec network,
                                                          std::int64_t batch_size, Precision precision,
                                                          std::uint64_t seed, NormGroup* norm_group);

}  // namespace paceline::cuda
