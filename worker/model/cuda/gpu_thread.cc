#include "worker/model/cuda/gpu_thread.h"

#include <string>

namespace paceline::cuda {

Result<std::shared_ptr<const GpuThread>> GpuThread::open(int device) {
  std::shared_ptr<GpuThread> thread(new GpuThread(device));
  PACELINE_RETURN_IF_ERROR(thread->make().with_context("GPU " + std::to_string(device)));
  return std::shared_ptr<const GpuThread>(std::move(thread));
}

Status GpuThread::make() {
  PACELINE_RETURN_IF_ERROR(enter());
  PACELINE_ASSIGN_OR_RETURN(compute_, make_stream());
  PACELINE_ASSIGN_OR_RETURN(copies_, make_stream());
  PACELINE_ASSIGN_OR_RETURN(cudnn_, make_cudnn(compute()));
  PACELINE_ASSIGN_OR_RETURN(cublas_, make_cublas(compute()));
  return Status::ok();
}

Status GpuThread::enter() const {
  PACELINE_CUDA(cudaSetDevice(device_));
  return Status::ok();
}

Status GpuThread::drain() const {
  const Status computed = status_of(cudaStreamSynchronize(compute()), "cudaStreamSynchronize");
  const Status copied = status_of(cudaStreamSynchronize(copies()), "cudaStreamSynchronize");
  return computed.is_ok() ? copied : computed;
}

}  // namespace paceline::cuda
