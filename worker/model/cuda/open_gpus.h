// The CUDA back end: where the worker's GPUs (worker/model/gpus.h) come from.
#pragma once

#include <memory>

#include "common/status.h"
#include "worker/model/gpus.h"

namespace paceline::cuda {

// Errors, each naming what is missing: kUnavailable when there is no driver, no GPU, not the one that is
// listed, or one that is too old for the precision.
Result<std::shared_ptr<Gpus>> open_gpus(const GpuChoice& choice);

}  // namespace paceline::cuda
