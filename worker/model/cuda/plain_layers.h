// The layers without parameters: our own kernels alone. Flatten is none: the memory is the same before and
// behind.
#pragma once

#include "common/network/network.h"
#include "worker/model/cuda/launch.h"
#include "worker/model/cuda/layer.h"

namespace paceline::cuda {

// One that no trained layer does with its bias.
template <typename T>
class Relu final : public GpuLayer<T> {
 public:
  Relu(const GpuThread& gpu, const Layer& layer, int samples)
      : gpu_(gpu), elements_(samples * static_cast<int>(layer.out.size())) {}

  Status forward(const Pass<T>&, const T* in, T* out) override {
    PACELINE_CUDA(launch_each(gpu_.compute(), elements_, ReluForward<T>{in, out}));
    return Status::ok();
  }
  Status backward(const Pass<T>&, const T*, const T* out, T* out_difference, T* in_difference) override {
    const ReluBackward<T> relu{out, out_difference, in_difference};
    PACELINE_CUDA(launch_each(gpu_.compute(), elements_, relu));
    return Status::ok();
  }

 private:
  const GpuThread& gpu_;
  const int elements_;
};

template <typename T>
class MaxPool final : public GpuLayer<T> {
 public:
  static Result<std::unique_ptr<GpuLayer<T>>> make(const GpuThread& gpu, const Layer& layer, int samples) {
    std::unique_ptr<MaxPool> pool(new MaxPool(gpu, layer, samples));
    PACELINE_ASSIGN_OR_RETURN(pool->argmax_, make_device_memory<std::int32_t>(pool->out_elements_));
    return std::unique_ptr<GpuLayer<T>>(std::move(pool));
  }

  Status forward(const Pass<T>&, const T* in, T* out) override {
    const PoolForward<T> pool{shape_, in, out, argmax_.data()};
    PACELINE_CUDA(launch_each(gpu_.compute(), out_elements_, pool));
    return Status::ok();
  }
  Status backward(const Pass<T>&, const T*, const T*, T* out_difference, T* in_difference) override {
    const PoolBackward<T> pool{shape_, out_difference, argmax_.data(), in_difference};
    PACELINE_CUDA(launch_each(gpu_.compute(), in_elements_, pool));
    return Status::ok();
  }

 private:
  MaxPool(const GpuThread& gpu, const Layer& layer, int samples)
      : gpu_(gpu),
        shape_{static_cast<int>(layer.in.height),  static_cast<int>(layer.in.width),
               static_cast<int>(layer.out.height), static_cast<int>(layer.out.width),
               static_cast<int>(layer.kernel),     static_cast<int>(layer.stride),
               static_cast<int>(layer.padding)},
        in_elements_(samples * static_cast<int>(layer.in.size())),
        out_elements_(samples * static_cast<int>(layer.out.size())) {}

  const GpuThread& gpu_;
  const PoolShape shape_;
  const int in_elements_;
  const int out_elements_;
  DeviceMemory<std::int32_t> argmax_;
};

template <typename T>
class Dropout final : public GpuLayer<T> {
 public:
  Dropout(const GpuThread& gpu, const Layer& layer, std::size_t layer_index, int samples, std::uint64_t seed)
      : gpu_(gpu),
        rule_(layer.rate),
        layer_index_(layer_index),
        samples_(samples),
        elements_(static_cast<int>(layer.out.size())),
        seed_(seed) {}

  Status forward(const Pass<T>& pass, const T* in, T* out) override {
    if (pass.mode == Mode::kTraining) return apply(pass, in, out);
    const std::size_t bytes = sizeof(T) * static_cast<std::size_t>(samples_) * elements_;
    PACELINE_CUDA(cudaMemcpyAsync(out, in, bytes, cudaMemcpyDeviceToDevice, gpu_.compute()));
    return Status::ok();
  }
  Status backward(const Pass<T>& pass, const T*, const T*, T* out_difference, T* in_difference) override {
    return apply(pass, out_difference, in_difference);
  }

 private:
  Status apply(const Pass<T>& pass, const T* from, T* to) {
    const ApplyDropout<T> mask{rule_, seed_, layer_index_, pass.epochs, pass.sample_ids, elements_, from, to};
    PACELINE_CUDA(launch_each(gpu_.compute(), samples_ * mask.quads(), mask));
    return Status::ok();
  }

  const GpuThread& gpu_;
  const DropoutRule rule_;
  const std::size_t layer_index_;
  const int samples_;
  const int elements_;
  const std::uint64_t seed_;
};

}  // namespace paceline::cuda
