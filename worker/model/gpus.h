// The GPUs of a node, as the worker sees them: back ends for its threads. Nothing of CUDA is in here; what
// implements it is in worker/model/cuda, and is loaded when a run asks for it (gpu_module.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/config/run_config.h"
#include "common/status.h"
#include "worker/model/backend.h"

namespace paceline {

// Which GPUs, as CUDA numbers them; empty: all that there are. A GPU may be listed twice, and then gets twice
// as many threads.
struct GpuChoice {
  std::vector<std::uint32_t> devices;
  Precision precision = Precision::kFp32;
};

// Thread: any.
class Gpus {
 public:
  virtual ~Gpus() = default;

  // For the calling thread, the node's `index`-th: on the GPUs in turn. Has a stream and handles of its own,
  // which its back ends share. Errors: kUnavailable or kInternal, naming the GPU, the call that failed and
  // why.
  virtual Result<MakeBackend> for_thread(std::uint32_t index) = 0;
};

}  // namespace paceline
