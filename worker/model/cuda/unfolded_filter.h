// The gradient of a convolution's filter as matrix products, in cuDNN's place where that is slower. cuDNN has
// nothing fast for filters that look at few inputs, if the bits are to repeat. Each sample's image is
// unfolded, so that what a place of the window sees is a row:
//
//   unfolded A_n   (in_channels x kernel^2) x positions        of 3 x 32 x 32 and 5x5: 75 x 1024
//   d weight_n     = d out_n * A_n^T                           64 x 75 = (64 x 1024) * (1024 x 75)
//   d weight       = the sum of all d weight_n
//
// Unfolding makes kernel^2 numbers of one. So it is done for a few samples at a time, as many as stay in the
// GPU's second-level cache until the product has read them. The products of a chunk are added to those of the
// chunk in front, and in the end to each other: always in the same order.
//
//   1024 samples of 307 kB unfolded, 109 of them in 32 MiB: 10 chunks of up to 103
//   chunk 0   samples 0 … 102     products 0 … 102    =  theirs
//   chunk 1   samples 103 … 205   products 0 … 102    += theirs
//   sum       groups of products, then the groups
#pragma once

#include <cstddef>

#include "common/config/run_config.h"
#include "common/network/network.h"
#include "worker/model/cuda/gpu_thread.h"
#include "worker/model/cuda/windows.h"

namespace paceline::cuda {

// T is what activations are stored as. The gradient is float32: nothing of it is rounded to T.
template <typename T>
class UnfoldedFilter {
 public:
  // Whether it may be worth measuring.
  static bool suits(const Layer& layer);

  // Of a layer that suits. `gpu` outlives it.
  UnfoldedFilter(const GpuThread& gpu, const Layer& layer, int samples, Precision precision);

  std::size_t workspace_bytes() const;

  // Puts d(loss)/d(weight) into the compute stream. `workspace`: workspace_bytes(), aligned to 256.
  Status compute(void* workspace, const T* in, const T* out_difference, float* gradient) const;

  // How long that takes, on memory of its own. Waits for the GPU.
  Result<float> measure_ms() const;

 private:
  // How the workspace is divided: what stands after what is unfolded, in bytes from the beginning.
  struct Parts {
    std::size_t products;
    std::size_t group_sums;
    std::size_t end;
  };
  Parts parts() const;
  int plane() const { return shape_.out_height * shape_.out_width; }
  Status multiply(const T* unfolded, const T* out_difference, int count, float beta, float* products) const;

  const GpuThread& gpu_;
  const WindowShape shape_;
  const int samples_;
  const int in_channels_;
  const int out_channels_;
  const int inputs_;  // that an output sees: in_channels x kernel^2
  const Precision precision_;
  const int chunk_;  // samples, but for the last chunk
};

}  // namespace paceline::cuda
