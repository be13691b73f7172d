// The sum of several values, element by element, each times its coefficient, with a ReLU right after it.
#pragma once

#include <span>
#include <vector>

#include "common/network/network.h"
#include "worker/model/cuda/launch.h"
#include "worker/model/cuda/layer.h"

namespace paceline::cuda {

template <typename T>
class Add final : public GpuLayer<T> {
 public:
  Add(const GpuThread& gpu, const Layer& layer, int samples, WithRelu relu)
      : gpu_(gpu),
        coefficients_(layer.coefficients.begin(), layer.coefficients.end()),
        elements_(samples * static_cast<int>(layer.out.size())),
        relu_(relu) {
    if (coefficients_.empty()) coefficients_.assign(layer.inputs.size(), 1.0F);
  }

  Status forward(const Pass<T>&, std::span<const T* const> in, T* out) override {
    const T* sum = in[0];
    float times = coefficients_[0];
    for (std::size_t k = 1; k < in.size(); ++k) {
      const bool last = k + 1 == in.size();
      PACELINE_RETURN_IF_ERROR(
          put({sum, times, in[k], coefficients_[k], last && relu_ == WithRelu::kYes, elements_, out}));
      sum = out;
      times = 1.0F;
    }
    return Status::ok();
  }

  Status backward(const Pass<T>&, std::span<const T* const>, const T* out, T* out_difference,
                  std::span<T* const> in_differences) override {
    if (relu_ == WithRelu::kYes) {
      const ReluBackward<T> mask{out, out_difference, out_difference, elements_};
      PACELINE_CUDA(launch_each(gpu_.compute(), vectors_of<T>(elements_), mask));
    }
    for (std::size_t k = 0; k < in_differences.size(); ++k) {
      if (in_differences[k] == nullptr || in_differences[k] == out_difference) continue;
      PACELINE_RETURN_IF_ERROR(
          put({out_difference, coefficients_[k], nullptr, 0.0F, false, elements_, in_differences[k]}));
    }
    return Status::ok();
  }

  bool hands_on(std::size_t input) const override { return coefficients_[input] == 1.0F; }

 private:
  Status put(const WeightedSum<T>& sum) const {
    PACELINE_CUDA(launch_each(gpu_.compute(), vectors_of<T>(elements_), sum));
    return Status::ok();
  }

  const GpuThread& gpu_;
  std::vector<float> coefficients_;  // of each input
  const int elements_;
  const WithRelu relu_;
};

}  // namespace paceline::cuda
