// What a convolution and a dense layer have in common beside their products: the bias, a ReLU right behind
// them, and a weight gradient that is computed as T.
#pragma once

#include <type_traits>

#include "common/network/network.h"
#include "worker/model/cuda/launch.h"
#include "worker/model/cuda/layer.h"

namespace paceline::cuda {

// A ReLU behind a trained layer is applied with its bias, in one pass over the memory.
enum class Behind { kNothing, kRelu };

template <typename T>
class TrainedLayer : public GpuLayer<T> {
 public:
  TrainedLayer(const GpuThread& gpu, const Layer& layer, int samples, Behind behind)
      : gpu_(gpu), layer_(layer), samples_(samples), behind_(behind) {}

  Status forward(const Pass<T>& pass, const T* in, T* out) final {
    PACELINE_RETURN_IF_ERROR(multiply(pass, in, out));
    const AddBias<T> bias{out, pass.parameters + layer_.bias.offset, channels(), plane(),
                          behind_ == Behind::kRelu};
    PACELINE_CUDA(launch_each(gpu_.compute(), elements(), bias));
    return Status::ok();
  }

  Status backward(const Pass<T>& pass, const T* in, const T* out, T* out_difference, T* in_difference) final {
    if (behind_ == Behind::kRelu) {
      const ReluBackward<T> relu{out, out_difference, out_difference};
      PACELINE_CUDA(launch_each(gpu_.compute(), elements(), relu));
    }
    const ChannelSums<T> sums{out_difference, samples_, channels(), plane(),
                              pass.gradient + layer_.bias.offset};
    PACELINE_CUDA(launch_channel_sums(gpu_.compute(), sums));
    PACELINE_RETURN_IF_ERROR(weight_gradient(pass, in, out_difference));
    if (in_difference == nullptr) return Status::ok();
    return multiply_for_input(pass, out_difference, in_difference);
  }

 protected:
  // out = weight * in, without the bias.
  virtual Status multiply(const Pass<T>& pass, const T* in, T* out) = 0;
  // d(loss)/d(weight) into `into`, weight.size elements of T.
  virtual Status multiply_for_weight(const Pass<T>& pass, const T* in, const T* out_difference, T* into) = 0;
  // in_difference = weight transposed * out_difference.
  virtual Status multiply_for_input(const Pass<T>& pass, const T* out_difference, T* in_difference) = 0;

  const T* weight(const Pass<T>& pass) const { return pass.weights + layer_.weight.offset; }

  const GpuThread& gpu_;
  const Layer layer_;
  const int samples_;

 private:
  int channels() const { return static_cast<int>(layer_.out.channels); }
  int plane() const { return static_cast<int>(layer_.out.height * layer_.out.width); }
  int elements() const { return samples_ * channels() * plane(); }

  Status weight_gradient(const Pass<T>& pass, const T* in, const T* out_difference) {
    float* into = pass.gradient + layer_.weight.offset;
    if constexpr (std::is_same_v<T, float>) {
      return multiply_for_weight(pass, in, out_difference, into);
    } else {
      PACELINE_RETURN_IF_ERROR(multiply_for_weight(pass, in, out_difference, pass.weight_gradient));
      const Convert<T, float> widen{pass.weight_gradient, into};
      PACELINE_CUDA(launch_each(gpu_.compute(), static_cast<int>(layer_.weight.size), widen));
      return Status::ok();
    }
  }

  const Behind behind_;
};

}  // namespace paceline::cuda
