// Average pools: of windows, and of whole planes.
#pragma once

#include <span>

#include "common/network/network.h"
#include "worker/model/cuda/launch.h"
#include "worker/model/cuda/layer.h"

namespace paceline::cuda {

template <typename T>
class AveragePool final : public GpuLayer<T> {
 public:
  AveragePool(const GpuThread& gpu, const Layer& layer, int samples)
      : gpu_(gpu),
        shape_(window_shape_of(layer)),
        in_elements_(samples * static_cast<int>(layer.in.size())),
        out_elements_(samples * static_cast<int>(layer.out.size())) {}

  Status forward(const Pass<T>&, std::span<const T* const> in, T* out) override {
    PACELINE_CUDA(launch_each(gpu_.compute(), out_elements_, AverageForward<T>{shape_, in[0], out}));
    return Status::ok();
  }
  Status backward(const Pass<T>&, std::span<const T* const>, const T*, T* out_difference,
                  std::span<T* const> in_differences) override {
    if (in_differences[0] == nullptr) return Status::ok();
    const AverageBackward<T> spread{shape_, out_difference, in_differences[0]};
    PACELINE_CUDA(launch_each(gpu_.compute(), in_elements_, spread));
    return Status::ok();
  }

 private:
  const GpuThread& gpu_;
  const WindowShape shape_;
  const int in_elements_;
  const int out_elements_;
};

template <typename T>
class GlobalAveragePool final : public GpuLayer<T> {
 public:
  GlobalAveragePool(const GpuThread& gpu, const Layer& layer, int samples)
      : gpu_(gpu),
        plane_(static_cast<int>(layer.in.height * layer.in.width)),
        planes_(samples * static_cast<int>(layer.in.channels)) {}

  Status forward(const Pass<T>&, std::span<const T* const> in, T* out) override {
    PACELINE_CUDA(launch_each(gpu_.compute(), planes_, PlaneMean<T>{plane_, in[0], out}));
    return Status::ok();
  }
  Status backward(const Pass<T>&, std::span<const T* const>, const T*, T* out_difference,
                  std::span<T* const> in_differences) override {
    if (in_differences[0] == nullptr) return Status::ok();
    const PlaneMeanBackward<T> spread{plane_, out_difference, in_differences[0]};
    PACELINE_CUDA(launch_each(gpu_.compute(), planes_ * plane_, spread));
    return Status::ok();
  }

 private:
  const GpuThread& gpu_;
  const int plane_;
  const int planes_;
};

}  // namespace paceline::cuda
