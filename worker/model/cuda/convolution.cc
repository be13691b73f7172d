#include "worker/model/cuda/convolution.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "worker/model/cuda/precision.h"
#include "worker/model/cuda/unfolded_filter.h"

namespace paceline::cuda {
namespace {

// cuDNN's result = kOne * what is computed + kZero * what was there; with 0 that is not read.
constexpr float kOne = 1.0F;
constexpr float kZero = 0.0F;
constexpr int kMeasuredMax = 16;  // more than cuDNN has algorithms, each with two kinds of math

// What cuDNN is told of a convolution. The passes differ in the math that their algorithm was chosen with.
struct Descriptors {
  TensorDescriptor in;
  TensorDescriptor out;
  FilterDescriptor weight;
  ConvolutionDescriptor forward;
  ConvolutionDescriptor data;
  ConvolutionDescriptor filter;
};

Status describe_image(const TensorDescriptor& tensor, cudnnDataType_t type, int samples, const Shape& shape) {
  PACELINE_CUDA(cudnnSetTensor4dDescriptor(tensor.get(), CUDNN_TENSOR_NCHW, type, samples,
                                           static_cast<int>(shape.channels), static_cast<int>(shape.height),
                                           static_cast<int>(shape.width)));
  return Status::ok();
}

Result<ConvolutionDescriptor> describe_convolution(const Layer& layer, cudnnMathType_t math) {
  PACELINE_ASSIGN_OR_RETURN(ConvolutionDescriptor convolution, make_convolution_descriptor());
  const auto padding = static_cast<int>(layer.padding);
  const auto stride = static_cast<int>(layer.stride);
  PACELINE_CUDA(cudnnSetConvolution2dDescriptor(convolution.get(), padding, padding, stride, stride, 1, 1,
                                                CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  PACELINE_CUDA(cudnnSetConvolutionMathType(convolution.get(), math));
  return convolution;
}

Result<Descriptors> describe(const Layer& layer, int samples, cudnnDataType_t type, cudnnMathType_t math) {
  Descriptors d;
  PACELINE_ASSIGN_OR_RETURN(d.in, make_tensor_descriptor());
  PACELINE_RETURN_IF_ERROR(describe_image(d.in, type, samples, layer.in));
  PACELINE_ASSIGN_OR_RETURN(d.out, make_tensor_descriptor());
  PACELINE_RETURN_IF_ERROR(describe_image(d.out, type, samples, layer.out));
  PACELINE_ASSIGN_OR_RETURN(d.weight, make_filter_descriptor());
  const auto kernel = static_cast<int>(layer.kernel);
  PACELINE_CUDA(cudnnSetFilter4dDescriptor(d.weight.get(), type, CUDNN_TENSOR_NCHW,
                                           static_cast<int>(layer.out.channels),
                                           static_cast<int>(layer.in.channels), kernel, kernel));
  PACELINE_ASSIGN_OR_RETURN(d.forward, describe_convolution(layer, math));
  PACELINE_ASSIGN_OR_RETURN(d.data, describe_convolution(layer, math));
  PACELINE_ASSIGN_OR_RETURN(d.filter, describe_convolution(layer, math));
  return d;
}

// Runs one of cuDNN's searches and chooses; nullopt: none of its algorithms works here.
template <typename Perf, typename Find>
auto search(const char* call, cudnnMathType_t math, const Find& find)
    -> Result<std::optional<Chosen<decltype(Perf::algo)>>> {
  std::array<Perf, kMeasuredMax> measured;
  int found = 0;
  PACELINE_RETURN_IF_ERROR(status_of(find(kMeasuredMax, &found, measured.data()), call));
  return choose(std::span<const Perf>(measured.data(), static_cast<std::size_t>(found)), math);
}

// What has been chosen, where there must be something.
template <typename Choice>
Result<Choice> chosen_by(const char* call, const Result<std::optional<Choice>>& found) {
  PACELINE_RETURN_IF_ERROR(found.status());
  if (!*found) return internal_error(std::string(call) + ": none of its algorithms works here");
  return **found;
}

// Whether `unfolded`, which gives the same bits each time, is to be taken instead of cuDNN's choice: where
// there is none, or that does not, or it is slower. Of two that do, cuDNN's is taken where there is no memory
// to measure the other with.
template <typename T>
Result<FilterBy> measure_unfolding(const UnfoldedFilter<T>& unfolded,
                                   const std::optional<Chosen<cudnnConvolutionBwdFilterAlgo_t>>& other) {
  if (!other || other->determinism != CUDNN_DETERMINISTIC) return FilterBy::kUnfolding;
  const Result<float> milliseconds = unfolded.measure_ms();
  if (milliseconds.status().code() == StatusCode::kResourceExhausted) return FilterBy::kCudnn;
  PACELINE_RETURN_IF_ERROR(milliseconds.status());
  return *milliseconds < other->milliseconds ? FilterBy::kUnfolding : FilterBy::kCudnn;
}

template <typename T>
Result<ConvolutionAlgorithms> measure(cudnnHandle_t cudnn, const Descriptors& d, cudnnMathType_t math,
                                      const std::optional<UnfoldedFilter<T>>& unfolded) {
  ConvolutionAlgorithms algorithms;
  constexpr auto kForward = "cudnnFindConvolutionForwardAlgorithm";
  const auto forward =
      search<cudnnConvolutionFwdAlgoPerf_t>(kForward, math, [&](int most, int* found, auto* perf) {
        return cudnnFindConvolutionForwardAlgorithm(cudnn, d.in.get(), d.weight.get(), d.forward.get(),
                                                    d.out.get(), most, found, perf);
      });
  PACELINE_ASSIGN_OR_RETURN(algorithms.forward, chosen_by(kForward, forward));

  constexpr auto kData = "cudnnFindConvolutionBackwardDataAlgorithm";
  const auto data =
      search<cudnnConvolutionBwdDataAlgoPerf_t>(kData, math, [&](int most, int* found, auto* perf) {
        return cudnnFindConvolutionBackwardDataAlgorithm(cudnn, d.weight.get(), d.out.get(), d.data.get(),
                                                         d.in.get(), most, found, perf);
      });
  PACELINE_ASSIGN_OR_RETURN(algorithms.data, chosen_by(kData, data));

  constexpr auto kFilter = "cudnnFindConvolutionBackwardFilterAlgorithm";
  const auto filter =
      search<cudnnConvolutionBwdFilterAlgoPerf_t>(kFilter, math, [&](int most, int* found, auto* perf) {
        return cudnnFindConvolutionBackwardFilterAlgorithm(cudnn, d.in.get(), d.out.get(), d.filter.get(),
                                                           d.weight.get(), most, found, perf);
      });
  PACELINE_RETURN_IF_ERROR(filter.status());
  if (unfolded) {
    PACELINE_ASSIGN_OR_RETURN(algorithms.filter_by, measure_unfolding(*unfolded, *filter));
  }
  if (algorithms.filter_by == FilterBy::kCudnn) {
    PACELINE_ASSIGN_OR_RETURN(algorithms.filter, chosen_by(kFilter, filter));
  }
  return algorithms;
}

template <typename T>
class Convolution final : public TrainedLayer<T> {
 public:
  Convolution(const GpuThread& gpu, const Layer& layer, int samples, Behind<T> behind,
              Descriptors descriptors, const ConvolutionAlgorithms& algorithms,
              const std::optional<UnfoldedFilter<T>>& unfolded)
      : TrainedLayer<T>(gpu, layer, samples, std::move(behind)),
        d_(std::move(descriptors)),
        algorithms_(algorithms) {
    if (algorithms.filter_by == FilterBy::kUnfolding) unfolded_.emplace(*unfolded);
  }

  // With the math of the chosen algorithms: a workspace's size depends on it.
  Status prepare() {
    const cudnnHandle_t cudnn = this->gpu_.cudnn();
    PACELINE_CUDA(cudnnSetConvolutionMathType(d_.forward.get(), algorithms_.forward.math));
    PACELINE_CUDA(cudnnSetConvolutionMathType(d_.data.get(), algorithms_.data.math));
    PACELINE_CUDA(cudnnGetConvolutionForwardWorkspaceSize(cudnn, d_.in.get(), d_.weight.get(),
                                                          d_.forward.get(), d_.out.get(),
                                                          algorithms_.forward.algorithm, &forward_bytes_));
    PACELINE_CUDA(cudnnGetConvolutionBackwardDataWorkspaceSize(cudnn, d_.weight.get(), d_.out.get(),
                                                               d_.data.get(), d_.in.get(),
                                                               algorithms_.data.algorithm, &data_bytes_));
    if (unfolded_) {
      filter_bytes_ = unfolded_->workspace_bytes();
      return Status::ok();
    }
    PACELINE_CUDA(cudnnSetConvolutionMathType(d_.filter.get(), algorithms_.filter.math));
    PACELINE_CUDA(cudnnGetConvolutionBackwardFilterWorkspaceSize(
        cudnn, d_.in.get(), d_.out.get(), d_.filter.get(), d_.weight.get(), algorithms_.filter.algorithm,
        &filter_bytes_));
    return Status::ok();
  }

  std::size_t workspace_bytes() const override {
    return std::max({forward_bytes_, data_bytes_, filter_bytes_});
  }

 protected:
  Status multiply(const Pass<T>& pass, const T* in, T* out) override {
    PACELINE_CUDA(cudnnConvolutionForward(this->gpu_.cudnn(), &kOne, d_.in.get(), in, d_.weight.get(),
                                          this->weight(pass), d_.forward.get(), algorithms_.forward.algorithm,
                                          pass.workspace, forward_bytes_, &kZero, d_.out.get(), out));
    return Status::ok();
  }

  Status multiply_for_weight(const Pass<T>& pass, const T* in, const T* out_difference,
                             float* into) override {
    if (unfolded_) return unfolded_->compute(pass.workspace, in, out_difference, into);
    if constexpr (std::is_same_v<T, float>) {
      return filter_gradient(pass, in, out_difference, into);
    } else {
      PACELINE_RETURN_IF_ERROR(filter_gradient(pass, in, out_difference, pass.weight_gradient));
      const Convert<T, float> widen{pass.weight_gradient, into};
      PACELINE_CUDA(launch_each(this->gpu_.compute(), static_cast<int>(this->layer_.weight.size), widen));
      return Status::ok();
    }
  }

  Status multiply_for_input(const Pass<T>& pass, const T* out_difference, T* in_difference) override {
    PACELINE_CUDA(cudnnConvolutionBackwardData(this->gpu_.cudnn(), &kOne, d_.weight.get(), this->weight(pass),
                                               d_.out.get(), out_difference, d_.data.get(),
                                               algorithms_.data.algorithm, pass.workspace, data_bytes_,
                                               &kZero, d_.in.get(), in_difference));
    return Status::ok();
  }

 private:
  // cuDNN's, as T.
  Status filter_gradient(const Pass<T>& pass, const T* in, const T* out_difference, T* into) {
    PACELINE_CUDA(cudnnConvolutionBackwardFilter(
        this->gpu_.cudnn(), &kOne, d_.in.get(), in, d_.out.get(), out_difference, d_.filter.get(),
        algorithms_.filter.algorithm, pass.workspace, filter_bytes_, &kZero, d_.weight.get(), into));
    return Status::ok();
  }

  Descriptors d_;
  ConvolutionAlgorithms algorithms_;
  std::optional<UnfoldedFilter<T>> unfolded_;  // where it is taken
  std::size_t forward_bytes_ = 0;
  std::size_t data_bytes_ = 0;
  std::size_t filter_bytes_ = 0;
};

ConvolutionKey key_of(int device, const Layer& layer, int samples, cudnnDataType_t type,
                      cudnnMathType_t math) {
  return {.device = device,
          .type = type,
          .math = math,
          .samples = samples,
          .in_channels = static_cast<int>(layer.in.channels),
          .in_height = static_cast<int>(layer.in.height),
          .in_width = static_cast<int>(layer.in.width),
          .out_channels = static_cast<int>(layer.out.channels),
          .kernel = static_cast<int>(layer.kernel),
          .stride = static_cast<int>(layer.stride),
          .padding = static_cast<int>(layer.padding)};
}

template <typename T>
Result<ConvolutionAlgorithms> algorithms_of(const GpuThread& gpu, AlgorithmCache& cache,
                                            const ConvolutionKey& key, const Descriptors& descriptors,
                                            const std::optional<UnfoldedFilter<T>>& unfolded) {
  return cache.get(key, [&] {
    const auto lock = gpu.alone();
    return measure(gpu.cudnn(), descriptors, key.math, unfolded);
  });
}

}  // namespace

template <typename T>
Result<std::unique_ptr<GpuLayer<T>>> make_convolution(const GpuThread& gpu, AlgorithmCache& cache,
                                                      const Layer& layer, int samples, Precision precision,
                                                      Behind<T> behind) {
  const cudnnDataType_t type = TypeNames<T>::kCudnn;
  const cudnnMathType_t math = cudnn_math(precision);
  PACELINE_ASSIGN_OR_RETURN(Descriptors descriptors, describe(layer, samples, type, math));
  std::optional<UnfoldedFilter<T>> unfolded;
  if (UnfoldedFilter<T>::suits(layer)) unfolded.emplace(gpu, layer, samples, precision);
  PACELINE_ASSIGN_OR_RETURN(
      const ConvolutionAlgorithms algorithms,
      algorithms_of(gpu, cache, key_of(gpu.device(), layer, samples, type, math), descriptors, unfolded));
  auto made = std::make_unique<Convolution<T>>(gpu, layer, samples, std::move(behind), std::move(descriptors),
                                               algorithms, unfolded);
  PACELINE_RETURN_IF_ERROR(made->prepare());
  return std::unique_ptr<GpuLayer<T>>(std::move(made));
}

#define PACELINE_INSTANTIATE(T)                                                                     \
  template Result<std::unique_ptr<GpuLayer<T>>> make_convolution(const GpuThread&, AlgorithmCache&, \
                                                                 const Layer&, int, Precision, Behind<T>);
PACELINE_CUDA_FOR_ACTIVATIONS(PACELINE_INSTANTIATE)
#undef PACELINE_INSTANTIATE

}  // namespace paceline::cuda
