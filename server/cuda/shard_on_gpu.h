// A shard's vectors on a GPU: the ShardDevice of server/store/shard_device.h.
//
// Three streams, which events hold together: copies to the GPU, kernels, copies from it. So one block comes
// while the one before it is stepped and the one before that leaves:
//
//   up      | block 3 | block 2 | block 1 | block 0 |
//   steps             | 3 |     | 2 |     | 1 |     | 0 |
//   down                  | block 3 | block 2 | block 1 | block 0 |
//
// Nothing waits for the GPU as a whole, and the host for a decision once.
#pragma once

#include <memory>

#include "common/cuda/page_locked.h"
#include "common/status.h"
#include "server/store/shard_device.h"

namespace paceline::cuda {

// On GPU `device`, as CUDA numbers them. What is sent to it may lie in `pages`. Places for gradients beyond
// the first take at most a quarter of the memory that is free behind the rest. Errors:
// ServerDevice::make_shard().
Result<std::unique_ptr<server::ShardDevice>> make_shard_on_gpu(int device,
                                                               std::shared_ptr<const PinnedPages> pages,
                                                               const server::DeviceShard& shard);

}  // namespace paceline::cuda
