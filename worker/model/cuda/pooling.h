// A max-pool of a mini-batch, as a layer of its own (plain_layers.h) or after a trained one
// (trained_layer.h): which kernels, and what the backward pass must know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "common/network/network.h"
#include "worker/model/cuda/gpu_thread.h"
#include "worker/model/cuda/launch.h"

namespace paceline::cuda {

template <typename T>
class Pooling {
 public:
  // Of `layer`, a pool. `gpu` outlives it.
  static Result<Pooling> make(const GpuThread& gpu, const Layer& layer, int samples) {
    Pooling pooling(gpu, layer, samples);
    const std::size_t bytes = are_quads(pooling.shape_) ? sizeof(std::uint8_t) : sizeof(std::int32_t);
    PACELINE_ASSIGN_OR_RETURN(
        pooling.positions_,
        make_device_memory<std::byte>(pooling.out_elements_ * static_cast<std::int64_t>(bytes)));
    return pooling;
  }

  int out_plane() const { return shape_.out_height * shape_.out_width; }

  // Of what `ahead` makes of `in`. Puts the work into the compute stream, as backward() does.
  Status forward(const BiasRelu<T>& ahead, const T* in, T* out) const {
    if (are_quads(shape_)) {
      const PoolQuadForward<T> pool{shape_.out_height,        shape_.out_width, ahead, in, out,
                                    positions<std::uint8_t>()};
      PACELINE_CUDA(launch_each(gpu_->compute(), out_elements_ / kQuad, pool));
    } else {
      const PoolForward<T> pool{shape_, ahead, in, out, positions<std::int32_t>()};
      PACELINE_CUDA(launch_each(gpu_->compute(), out_elements_, pool));
    }
    return Status::ok();
  }

  // With respect to what `ahead` made.
  Status backward(const T* out_difference, T* in_difference) const {
    if (are_quads(shape_)) {
      const PoolQuadBackward<T> pool{shape_.out_width, out_difference, positions<std::uint8_t>(),
                                     in_difference};
      PACELINE_CUDA(launch_each(gpu_->compute(), out_elements_ / kQuad, pool));
    } else {
      const PoolBackward<T> pool{shape_, out_difference, positions<std::int32_t>(), in_difference};
      PACELINE_CUDA(launch_each(gpu_->compute(), in_elements_, pool));
    }
    return Status::ok();
  }

 private:
  Pooling(const GpuThread& gpu, const Layer& layer, int samples)
      : gpu_(&gpu),
        shape_(window_shape_of(layer)),
        in_elements_(samples * static_cast<int>(layer.in.size())),
        out_elements_(samples * static_cast<int>(layer.out.size())) {}

  template <typename Position>
  Position* positions() const {
    return reinterpret_cast<Position*>(positions_.data());
  }

  const GpuThread* gpu_;
  WindowShape shape_;
  int in_elements_;
  int out_elements_;
  DeviceMemory<std::byte> positions_;  // in its window, of each output's largest value
};

}  // namespace paceline::cuda
