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

namespace paceline::cuda {

// Contract as make_backend (worker/model/backend.h); errors also those of the GPU's memory
// (kResourceExhausted). Thread: the one that opened `gpu`. `cache` is only used in this call.
Result<std::unique_ptr<NetworkBackend>> make_cuda_backend(std::shared_ptr<const GpuThread> gpu,
                                                          AlgorithmCache& cache, NetworkSpec network,
                                                          std::int64_t batch_size, Precision precision,
                                                          std::uint64_t seed);

}  // namespace paceline::cuda
