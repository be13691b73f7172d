// Where a worker's GPUs come from: the CUDA back end, which is loaded when a run asks for it
// (common/cuda/load_module.h).
#pragma once

#include <memory>

#include "common/status.h"
#include "worker/model/gpus.h"

namespace paceline {

// The module's function for workers: void(const GpuChoice&, Result<std::shared_ptr<Gpus>>&).
inline constexpr const char* kOpenGpus = "paceline_open_gpus";

// Errors begin with "train.device: cuda" and say what is missing. kFailedPrecondition: the module does not
// load, because this build has none, or a library of CUDA's is not found. Those of cuda::open_gpus(),
// kUnavailable: it does, and there is no GPU that will do.
Result<std::shared_ptr<Gpus>> load_gpus(const GpuChoice& choice);

}  // namespace paceline
