// The thread cache of a training thread in its GPU's memory: the parameters that its back ends compute with,
// and the passes over them as kernels. Servers' parameters come from the host's memory, each float once; an
// own gradient is on the GPU already, where the last step has left it.
//
// Passes are put into the thread's compute stream and not waited for: what is computed after them is behind
// them there, too. What they still take when a step begins is its, in ThreadModel.
#pragma once

#include <memory>

#include "common/config/run_config.h"
#include "common/cuda/page_locked.h"
#include "common/network/network.h"
#include "common/status.h"
#include "common/task/cache_vectors.h"
#include "worker/model/cuda/gpu_thread.h"
#include "worker/model/cuda/thread_model.h"

namespace paceline::cuda {

// Of a model that trains with `optimizer`: CacheVectors that `model` names until they go. What they take over
// may lie in `pages`. Thread: the one that opened `gpu`. Errors: those of the GPU's memory
// (kResourceExhausted).
Result<std::unique_ptr<CacheVectors>> make_device_vectors(std::shared_ptr<const GpuThread> gpu,
                                                          std::shared_ptr<ThreadModel> model,
                                                          std::shared_ptr<const PinnedPages> pages,
                                                          const NetworkSpec& network,
                                                          const OptimizerSection& optimizer);

}  // namespace paceline::cuda
