// The GPU of a server process: where its ServerDevice (server/store/shard_device.h) comes from.
#pragma once

#include <memory>

#include "common/status.h"
#include "server/gpu_module.h"
#include "server/store/shard_device.h"

namespace paceline::cuda {

// Errors, each naming what is missing: kUnavailable when there is no driver, no GPU, or not the one that is
// listed. Neither cuDNN nor cuBLAS is asked for anything.
Result<std::shared_ptr<server::ServerDevice>> open_gpu(const server::ServerGpuChoice& choice);

}  // namespace paceline::cuda
