#include "worker/model/cuda/gpu_thread.h"

#include <string>

namespace paceline::cuda {

Result<std::shared_ptr<const GpuThread>> GpuThread::open(int device, std::shared_ptr<std::mutex> whole_gpu,
                                                         Warn warn) {
  std::shared_ptr<GpuThread> thread(new GpuThread(device, std::move(whole_gpu), std::move(warn)));
  PACELINE_RETURN_IF_ERROR(thread->make().with_context("GPU " + std::to_string(device)));
  return std::shared_ptr<const GpuThread>(std::move(thread));
}

GpuThread::~GpuThread() {
  const auto lock = alone();
  cublas_.reset();
  cudnn_.reset();
}

Status GpuThread::make() {
  const auto lock = alone();
  PACELINE_RETURN_IF_ERROR(enter());
  PACELINE_ASSIGN_OR_RETURN(compute_, make_stream());
  PACELINE_ASSIGN_OR_RETURN(copies_, make_stream());
  PACELINE_ASSIGN_OR_RETURN(uploads_, make_stream());
  PACELINE_ASSIGN_OR_RETURN(cudnn_, make_cudnn(compute()));
  // As much as its manual says that it can use, of Hopper the most.
  constexpr std::int64_t kCublasBytes = std::int64_t{32} << 20;
  PACELINE_ASSIGN_OR_RETURN(cublas_workspace_, make_device_memory<std::byte>(kCublasBytes));
  PACELINE_ASSIGN_OR_RETURN(cublas_, make_cublas(compute(), cublas_workspace_.all()));
  return Status::ok();
}

Status GpuThread::enter() const {
  PACELINE_CUDA(cudaSetDevice(device_));
  return Status::ok();
}

Status GpuThread::drain() const {
  Status drained;
  for (const cudaStream_t stream : {compute(), copies(), uploads()}) {
    const Status done = status_of(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    if (drained.is_ok()) drained = done;
  }
  return drained;
}

}  // namespace paceline::cuda
