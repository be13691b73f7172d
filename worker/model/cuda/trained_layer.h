// What a convolution and a dense layer have in common beside their products: the bias, if there is one, and a ReLU and
// a max-pool right after them, done in one pass over the memory.
//
//   forward    unpooled = weight * in      out = largest of each window of ReLU(unpooled + bias)
//   backward   d out is masked by the ReLU and summed up for the bias, then spread over the windows
//
// After 2 x 2 windows d out is a quarter of what it is spread over.
// The mask is the same on either side of the pool: what comes back goes to the largest of a window, which has
// passed the ReLU just where out > 0. So what stands between is needed no longer once it is pooled, and all
// layers share one memory for it.
#pragma once

#include <optional>
#include <span>
#include <utility>

#include "common/network/network.h"
#include "worker/model/cuda/launch.h"
#include "worker/model/cuda/layer.h"
#include "worker/model/cuda/pooling.h"

namespace paceline::cuda {

// What of the network a trained layer does with its own work.
template <typename T>
struct Behind {
  WithRelu relu = WithRelu::kNo;
  std::optional<Pooling<T>> pool;  // after the ReLU
};

template <typename T>
class TrainedLayer : public GpuLayer<T> {
 public:
  TrainedLayer(const GpuThread& gpu, const Layer& layer, int samples, Behind<T> behind)
      : gpu_(gpu), layer_(layer), samples_(samples), behind_(std::move(behind)) {}

  Status forward(const Pass<T>& pass, std::span<const T* const> in, T* out) final {
    const float* const bias = has_bias() ? pass.parameters + layer_.bias.offset : nullptr;
    const BiasRelu<T> ahead{bias, channels(), with_relu()};
    if (behind_.pool) {
      PACELINE_RETURN_IF_ERROR(multiply(pass, in[0], pass.unpooled));
      return behind_.pool->forward(ahead, pass.unpooled, out);
    }
    PACELINE_RETURN_IF_ERROR(multiply(pass, in[0], out));
    if (!has_bias() && !with_relu()) return Status::ok();
    PACELINE_CUDA(launch_each(gpu_.compute(), vectors_of<T>(products()),
                              AddBias<T>{ahead, product_plane(), products(), out}));
    return Status::ok();
  }

  Status backward(const Pass<T>& pass, std::span<const T* const> in, const T* out, T* out_difference,
                  std::span<T* const> in_differences) final {
    PACELINE_RETURN_IF_ERROR(has_bias() ? bias_gradient(pass, out, out_difference)
                                        : mask(out, out_difference));
    T* difference = out_difference;  // with respect to the products
    if (behind_.pool) {
      difference = pass.unpooled;
      PACELINE_RETURN_IF_ERROR(behind_.pool->backward(out_difference, difference));
    }
    PACELINE_RETURN_IF_ERROR(
        multiply_for_weight(pass, in[0], difference, pass.gradient + layer_.weight.offset));
    if (in_differences[0] == nullptr) return Status::ok();
    return multiply_for_input(pass, difference, in_differences[0]);
  }

  std::int64_t unpooled_elements() const final { return behind_.pool ? products() : 0; }

 protected:
  // out = weight * in, without the bias.
  virtual Status multiply(const Pass<T>& pass, const T* in, T* out) = 0;
  // d(loss)/d(weight) into `into`, weight.size elements.
  virtual Status multiply_for_weight(const Pass<T>& pass, const T* in, const T* out_difference,
                                     float* into) = 0;
  // in_difference = weight transposed * out_difference.
  virtual Status multiply_for_input(const Pass<T>& pass, const T* out_difference, T* in_difference) = 0;

  const T* weight(const Pass<T>& pass) const { return pass.weights + layer_.weight.offset; }

  const GpuThread& gpu_;
  const Layer layer_;
  const int samples_;

 private:
  bool has_bias() const { return layer_.bias.size > 0; }
  bool with_relu() const { return behind_.relu == WithRelu::kYes; }
  int channels() const { return static_cast<int>(layer_.out.channels); }
  int product_plane() const { return static_cast<int>(layer_.out.height * layer_.out.width); }
  int products() const { return samples_ * channels() * product_plane(); }
  int plane() const { return behind_.pool ? behind_.pool->out_plane() : product_plane(); }

  // With it the ReLU's mask.
  Status bias_gradient(const Pass<T>& pass, const T* out, T* out_difference) {
    float* const gradient = pass.gradient + layer_.bias.offset;
    if (plane() == 1) return sum_rows(pass, out, out_difference, gradient);
    const ChannelSums<T> sums{with_relu() ? out : nullptr,
                              out_difference,
                              {samples_, channels(), plane()},
                              pass.group_sums,
                              gradient};
    PACELINE_CUDA(launch_channel_sums(gpu_.compute(), sums));
    return Status::ok();
  }

  // The ReLU's mask, if there is one.
  Status mask(const T* out, T* out_difference) {
    if (!with_relu()) return Status::ok();
    const int elements = samples_ * channels() * plane();
    const ReluBackward<T> relu{out, out_difference, out_difference, elements};
    PACELINE_CUDA(launch_each(gpu_.compute(), vectors_of<T>(elements), relu));
    return Status::ok();
  }

  // Of a dense layer, or one pooled to a single place: the channels lie side by side.
  Status sum_rows(const Pass<T>& pass, const T* out, T* out_difference, float* gradient) {
    PACELINE_RETURN_IF_ERROR(mask(out, out_difference));
    const int groups = row_groups(samples_);
    const SumRows<T, double> in_groups{out_difference, samples_, channels(), groups, pass.group_sums};
    PACELINE_CUDA(launch_each(gpu_.compute(), groups * channels(), in_groups));
    const SumRows<double, float> of_groups{pass.group_sums, groups, channels(), 1, gradient};
    PACELINE_CUDA(launch_each(gpu_.compute(), channels(), of_groups));
    return Status::ok();
  }

  const Behind<T> behind_;
};

}  // namespace paceline::cuda
