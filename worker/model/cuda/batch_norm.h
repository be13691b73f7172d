// A batch norm by the mini-batch's own statistics, or by those of a group of workers (norm_exchange.h), with a ReLU
// right after it.
#pragma once

#include <span>
#include <utility>

#include "common/network/network.h"
#include "worker/model/cuda/launch.h"
#include "worker/model/cuda/layer.h"

namespace paceline::cuda {

template <typename T>
class BatchNorm final : public GpuLayer<T> {
 public:
  // `gpu` outlives it.
  static Result<BatchNorm> make(const GpuThread& gpu, const Layer& layer, std::size_t index, int samples,
                                WithRelu relu) {
    BatchNorm norm(gpu, layer, index, samples, relu);
    PACELINE_ASSIGN_OR_RETURN(norm.floats_, make_device_memory<float>(kVectors * layer.out.channels));
    return norm;
  }

  Status forward(const Pass<T>& pass, std::span<const T* const> in, T* out) override {
    if (pass.mode == Mode::kTraining) {
      const NormMoments<T> moments{in[0], shape_of(pass), layer_.epsilon, sums_of(pass), statistics()};
      PACELINE_CUDA(launch_channel_sums(gpu_.compute(), moments));
      values_ = shape_of(pass).values();
      if (pass.norms != nullptr) {
        PACELINE_ASSIGN_OR_RETURN(values_, pass.norms->combine(part_of(pass), layer_.epsilon, vector(0)));
      }
    } else {
      const NormRunning running{at(pass.parameters, layer_.running_mean),
                                at(pass.parameters, layer_.running_variance),
                                at(pass.parameters, layer_.running_weight), layer_.epsilon, statistics()};
      PACELINE_CUDA(launch_each(gpu_.compute(), channels(), running));
    }
    const NormForward<T> normal{in[0],
                                out,
                                shape_of(pass),
                                statistics(),
                                at(pass.parameters, layer_.weight),
                                at(pass.parameters, layer_.bias),
                                relu_ == WithRelu::kYes,
                                elements(),
                                end_of(pass)};
    PACELINE_CUDA(launch_each(gpu_.compute(), vectors_of<T>(elements()), normal));
    return Status::ok();
  }

  Status backward(const Pass<T>& pass, std::span<const T* const> in, const T* out, T* out_difference,
                  std::span<T* const> in_differences) override {
    const NormGradient<T> gradient{relu_ == WithRelu::kYes ? out : nullptr,
                                   out_difference,
                                   in[0],
                                   shape_of(pass),
                                   sums_of(pass),
                                   statistics(),
                                   static_cast<double>(values_),
                                   pass.norms == nullptr ? static_cast<double>(values_) : 1.0,
                                   at(pass.gradient, layer_.bias),
                                   at(pass.gradient, layer_.weight),
                                   vector(3),
                                   vector(4),
                                   at(pass.gradient, layer_.running_mean),
                                   at(pass.gradient, layer_.running_variance),
                                   at(pass.gradient, layer_.running_weight)};
    PACELINE_CUDA(launch_channel_sums(gpu_.compute(), gradient));
    if (pass.norms != nullptr) PACELINE_RETURN_IF_ERROR(pass.norms->correct(part_of(pass), vector(3)));
    if (in_differences[0] == nullptr) return Status::ok();
    const NormBackward<T> owed{in[0],          out_difference, in_differences[0],
                               shape_of(pass), statistics(),   at(pass.parameters, layer_.weight),
                               vector(3),      vector(4),      elements(),
                               end_of(pass)};
    PACELINE_CUDA(launch_each(gpu_.compute(), vectors_of<T>(elements()), owed));
    return Status::ok();
  }

 private:
  static constexpr std::int64_t kVectors =
      5;  // of a float for each channel: the statistics, and what is owed

  BatchNorm(const GpuThread& gpu, const Layer& layer, std::size_t index, int samples, WithRelu relu)
      : gpu_(gpu), layer_(layer), index_(index), samples_(samples), relu_(relu) {}

  int channels() const { return static_cast<int>(layer_.out.channels); }
  int elements() const { return samples_ * static_cast<int>(layer_.out.size()); }
  int end_of(const Pass<T>& pass) const { return pass.samples * static_cast<int>(layer_.out.size()); }
  PlanesOfChannels shape_of(const Pass<T>& pass) const {
    return {pass.samples, channels(), static_cast<int>(layer_.out.height * layer_.out.width)};
  }
  NormOfPart part_of(const Pass<T>& pass) const {
    return {index_, layer_.out.channels, pass.samples, layer_.out.height * layer_.out.width};
  }
  static TwoSums* sums_of(const Pass<T>& pass) { return reinterpret_cast<TwoSums*>(pass.group_sums); }

  float* vector(std::int64_t index) const { return floats_.data() + index * layer_.out.channels; }
  NormStatistics statistics() const { return {vector(0), vector(1), vector(2)}; }
  // Null where the layer has no such parameters.
  template <typename Float>
  static Float* at(Float* parameters, const ParameterRange& range) {
    return range.size == 0 ? nullptr : parameters + range.offset;
  }

  const GpuThread& gpu_;
  const Layer layer_;
  const std::size_t index_;  // in the network
  const int samples_;
  const WithRelu relu_;
  DeviceMemory<float> floats_;
  std::int64_t values_ = 0;  // of a channel, that the statistics are of
};

}  // namespace paceline::cuda
