// The layers without parameters: our own kernels alone. Flatten is none: the memory is the same before and
// after.
#pragma once

#include <span>
#include <utility>

#include "common/network/network.h"
#include "worker/model/cuda/launch.h"
#include "worker/model/cuda/layer.h"
#include "worker/model/cuda/pooling.h"

namespace paceline::cuda {

// One that no trained layer does with its bias.
template <typename T>
class Relu final : public GpuLayer<T> {
 public:
  Relu(const GpuThread& gpu, const Layer& layer, int samples)
      : gpu_(gpu), elements_(samples * static_cast<int>(layer.out.size())) {}

  Status forward(const Pass<T>&, std::span<const T* const> in, T* out) override {
    PACELINE_CUDA(
        launch_each(gpu_.compute(), vectors_of<T>(elements_), ReluForward<T>{in[0], out, elements_}));
    return Status::ok();
  }
  Status backward(const Pass<T>&, std::span<const T* const>, const T* out, T* out_difference,
                  std::span<T* const> in_differences) override {
    if (in_differences[0] == nullptr) return Status::ok();
    const ReluBackward<T> relu{out, out_difference, in_differences[0], elements_};
    PACELINE_CUDA(launch_each(gpu_.compute(), vectors_of<T>(elements_), relu));
    return Status::ok();
  }

 private:
  const GpuThread& gpu_;
  const int elements_;
};

// One that no trained layer does with its bias.
template <typename T>
class MaxPool final : public GpuLayer<T> {
 public:
  explicit MaxPool(Pooling<T> pooling) : pooling_(std::move(pooling)) {}

  Status forward(const Pass<T>&, std::span<const T* const> in, T* out) override {
    return pooling_.forward({.bias = nullptr, .channels = 1, .relu = false}, in[0], out);
  }
  Status backward(const Pass<T>&, std::span<const T* const>, const T*, T* out_difference,
                  std::span<T* const> in_differences) override {
    if (in_differences[0] == nullptr) return Status::ok();
    return pooling_.backward(out_difference, in_differences[0]);
  }

 private:
  const Pooling<T> pooling_;
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

  Status forward(const Pass<T>& pass, std::span<const T* const> in, T* out) override {
    if (pass.mode == Mode::kTraining) return apply(pass, in[0], out);
    const std::size_t bytes = sizeof(T) * static_cast<std::size_t>(samples_) * elements_;
    PACELINE_CUDA(cudaMemcpyAsync(out, in[0], bytes, cudaMemcpyDeviceToDevice, gpu_.compute()));
    return Status::ok();
  }
  Status backward(const Pass<T>& pass, std::span<const T* const>, const T*, T* out_difference,
                  std::span<T* const> in_differences) override {
    if (in_differences[0] == nullptr) return Status::ok();
    return apply(pass, out_difference, in_differences[0]);
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
