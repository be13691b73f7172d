// The training set in a GPU's memory, as bytes (CIFAR-10: 184 MB), put there once and read by all threads of
// a node that compute on that GPU. A mini-batch is then two short vectors, which samples in which epochs, and
// no core of the node decodes, augments or copies an image.
#pragma once

#include <cstdint>
#include <memory>

#include "common/cuda/resources.h"
#include "worker/data/augment.h"

namespace paceline::cuda {

// Immutable once it is made. Thread: any.
struct ResidentData {
  std::int64_t samples = 0;
  DeviceMemory<std::uint8_t> pixels;  // as in DataSet
  DeviceMemory<std::uint8_t> labels;
  Normalization normalization;
  BatchOptions options;
};

// Whether `set` takes no more than a quarter of what GPU `device` has free: activations, workspaces and who
// else computes there need the rest. Both make `device` the calling thread's current one.
Result<bool> fits(const DataSet& set, int device);

// Copies `set`, and returns when it is there.
Result<std::shared_ptr<const ResidentData>> make_resident(const DataSet& set,
                                                          const Normalization& normalization,
                                                          const BatchOptions& options, int device);

}  // namespace paceline::cuda
