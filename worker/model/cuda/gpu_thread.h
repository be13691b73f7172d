// What one training thread has of a GPU: three streams and a set of library handles, which all its back ends
// share. Several threads may share a GPU; each has its own, so that none waits for another's work.
//
//   compute   parameters in, forward, loss, backward: one after another
//   copies    gradients out, each layer's as soon as it is computed, beside the backward pass of the rest
//   uploads   mini-batches in, the next beside the step of the one before
//
// Some calls of the libraries may wait for all of a GPU: making and giving back a handle, measuring
// algorithms, the first step with them. Of a node one thread at a time makes such calls, and none while
// another thread captures a graph (step_graph.h): the call would fail, and the capture with it. Memory may be
// given back at any time.
//
// Thread: the one that opened it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "common/status.h"
#include "worker/model/cuda/libraries.h"
#include "worker/model/gpus.h"

namespace paceline::cuda {

class GpuThread {
 public:
  // On GPU `device`, as CUDA numbers them. `whole_gpu`: one mutex of all threads of the node. `warn`: Gpus'.
  // Errors: status_of()'s, naming the GPU.
  static Result<std::shared_ptr<const GpuThread>> open(int device, std::shared_ptr<std::mutex> whole_gpu,
                                                       Warn warn);
  ~GpuThread();
  GpuThread(const GpuThread&) = delete;
  GpuThread& operator=(const GpuThread&) = delete;

  int device() const { return device_; }
  cudaStream_t compute() const { return compute_.get(); }
  cudaStream_t copies() const { return copies_.get(); }
  cudaStream_t uploads() const { return uploads_.get(); }
  cudnnHandle_t cudnn() const { return cudnn_.get(); }
  cublasHandle_t cublas() const { return cublas_.get(); }

  // Makes its GPU the calling thread's current one: another one of the thread may have been used since.
  Status enter() const;
  // Until the lock goes no other thread of the node captures, nor does what may wait for all of a GPU.
  std::unique_lock<std::mutex> alone() const { return std::unique_lock(*whole_gpu_); }
  // For people who wonder why this GPU takes longer than others.
  void warn(const std::string& what) const { warn_("GPU " + std::to_string(device_) + ": " + what); }
  // Waits until everything begun in its streams is over.
  Status drain() const;

 private:
  GpuThread(int device, std::shared_ptr<std::mutex> whole_gpu, Warn warn)
      : device_(device), whole_gpu_(std::move(whole_gpu)), warn_(std::move(warn)) {}
  Status make();

  const int device_;
  const std::shared_ptr<std::mutex> whole_gpu_;
  const Warn warn_;
  Stream compute_;  // outlives the handles that work in it
  Stream copies_;
  Stream uploads_;
  CudnnHandle cudnn_;
  DeviceMemory<std::byte> cublas_workspace_;  // outlives the handle
  CublasHandle cublas_;
};

}  // namespace paceline::cuda
