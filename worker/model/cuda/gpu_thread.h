// What one training thread has of a GPU: two streams and a set of library handles, which all its back ends
// share. Several threads may share a GPU; each has its own, so that none waits for another's work.
//
//   compute   parameters in, forward, loss, backward: one after another
//   copies    gradients out, each layer's as soon as it is computed, beside the backward pass of the rest
//
// Thread: the one that opened it.
#pragma once

#include <memory>

#include "common/status.h"
#include "worker/model/cuda/resources.h"

namespace paceline::cuda {

class GpuThread {
 public:
  // On GPU `device`, as CUDA numbers them. Errors: status_of()'s, naming the GPU.
  static Result<std::shared_ptr<const GpuThread>> open(int device);

  int device() const { return device_; }
  cudaStream_t compute() const { return compute_.get(); }
  cudaStream_t copies() const { return copies_.get(); }
  cudnnHandle_t cudnn() const { return cudnn_.get(); }
  cublasHandle_t cublas() const { return cublas_.get(); }

  // Makes its GPU the calling thread's current one: another one of the thread may have been used since.
  Status enter() const;
  // Waits until everything begun in its streams is over.
  Status drain() const;

 private:
  explicit GpuThread(int device) : device_(device) {}
  Status make();

  const int device_;
  Stream compute_;  // outlives the handles that work in it
  Stream copies_;
  CudnnHandle cudnn_;
  CublasHandle cublas_;
};

}  // namespace paceline::cuda
