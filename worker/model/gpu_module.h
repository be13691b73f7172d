// Where the CUDA back end is loaded: libpaceline_cuda.so beside the programs, when a run asks for a GPU and
// not before. The libraries that it needs take 70 ms and 200 MB of a process that only looks at them, and
// need not be on a machine that computes on its CPU.
#pragma once

#include <memory>

#include "common/status.h"
#include "worker/model/gpus.h"

namespace paceline {

// The module's one function, by its C name kOpenGpus.
using OpenGpus = void(const GpuChoice& choice, Result<std::shared_ptr<Gpus>>& opened);
inline constexpr const char* kOpenGpus = "paceline_open_gpus";

// Errors begin with "train.device: cuda" and say what is missing. kFailedPrecondition: the module does not
// load, because this build has none, or a library of CUDA's is not found. Those of cuda::open_gpus(),
// kUnavailable: it does, and there is no GPU that will do.
Result<std::shared_ptr<Gpus>> load_gpus(const GpuChoice& choice);

}  // namespace paceline
