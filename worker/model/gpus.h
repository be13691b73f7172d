// The GPUs of a node, as the worker sees them: back ends for its threads. Nothing of CUDA is in here; what
// implements it is in worker/model/cuda, and is loaded when a run asks for it (gpu_module.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/network/network.h"
#include "common/status.h"
#include "common/task/cache_vectors.h"
#include "worker/data/augment.h"
#include "worker/model/backend.h"
#include "worker/model/loss_scaler.h"
#include "worker/model/norm_group.h"

namespace paceline {

// Which GPUs, as CUDA numbers them; empty: all that there are. A GPU may be listed twice, and then gets twice
// as many threads.
struct GpuChoice {
  std::vector<std::uint32_t> devices;
  Precision precision = Precision::kFp32;
};

// Takes a line for people: training goes on, but slower than it should. Thread: any.
using Warn = std::function<void(const std::string&)>;

enum class Kept { kNo, kYes };

// What one thread computes with: a stream and handles of its own, which all that is made of these share.
// Thread: the one that it was made for.
struct ThreadOfGpu {
  MakeBackend make_backend;
  // The thread cache's vectors (common/task/cache_vectors.h) on the GPU, for a model that trains with this
  // optimizer. While there are such, the back ends take them for their parameters, and gradient() is called
  // without. At most once: a step that was captured names their memory. Errors: kResourceExhausted, naming
  // what there was no room for.
  std::function<Result<std::unique_ptr<CacheVectors>>(const NetworkSpec&, const OptimizerSection&)>
      make_vectors;
  // Of all these back ends, with fp16; else null. As long as they live, or this.
  std::shared_ptr<LossScaler> loss_scaler;
};

// Thread: any.
class Gpus {
 public:
  virtual ~Gpus() = default;

  // Puts the training set `set`, not empty, into the memory of each GPU, if it takes no more than a quarter
  // of what is free on any. Back ends that are made afterwards, for networks of its images, then take
  // mini-batches without images (batch.h) for gradients. They make of the samples what a BatchMaker with
  // `normalization` and `options` would, to the bit. `set` is copied. To be called before the first
  // for_thread(). Errors: as for_thread()'s.
  virtual Result<Kept> keep(const DataSet& set, const Normalization& normalization,
                            const BatchOptions& options) = 0;

  // To be told what goes wrong and is no error. To be called before the first for_thread(), if at all.
  virtual void warn_to(Warn warn) = 0;

  // For the calling thread, the node's `index`-th: on the GPUs in turn. `norm_group`: of batch norms, as
  // make_backend()'s (backend.h), or null; none with fp16. Errors: kUnavailable or kInternal, naming the GPU, the call
  // that failed and why.
  virtual Result<ThreadOfGpu> for_thread(std::uint32_t index, NormGroup* norm_group) = 0;

  // The GPU of the node's `index`-th thread, as CUDA numbers them.
  virtual std::uint32_t device_of(std::uint32_t index) const = 0;

  // Memory from `upstream` (null: the heap) that the GPUs read and write by themselves, for gradients and
  // parameters; handed out as it is where that cannot be.
  virtual std::shared_ptr<std::pmr::memory_resource> page_locked(
      std::shared_ptr<std::pmr::memory_resource> upstream) = 0;

  // Has the GPUs read `pages` by themselves, whole ones of whatever memory, that are never written here, for
  // as long as what is returned lives, which is no longer than they are mapped. Errors: CUDA's, where that
  // cannot be.
  virtual Result<std::shared_ptr<void>> pin(std::span<const std::byte> pages) = 0;
};

}  // namespace paceline
