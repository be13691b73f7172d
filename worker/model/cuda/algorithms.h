// Which algorithm cuDNN computes each pass of a convolution with. cuDNN measures those it has
// (cudnnFind...Algorithm); of these the fastest that gives the same bits each time is taken, or the fastest
// of all where none does. Measured once for each shape and GPU of a node: the threads of a GPU then agree, so
// the same mini-batch gives the same gradient on each, and no measurement disturbs another. Another GPU, and
// another run, may find another one faster, whose sums are in another order.
//
//   measured          ALGO_0 1.0 ms not deterministic   ALGO_1 1.2 ms deterministic   FFT 3 ms deterministic
//   taken             ALGO_1
//
// A filter's gradient may be computed without cuDNN, always in the same order, and then is where that is
// faster.
#pragma once

#include <cudnn.h>

#include <compare>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>

#include "common/status.h"

namespace paceline::cuda {

template <typename Algorithm>
struct Chosen {
  Algorithm algorithm{};
  cudnnMathType_t math{};  // what it was measured with, and is to be run with
  cudnnDeterminism_t determinism{};
  float milliseconds = 0.0F;
};

// Who computes a filter's gradient: cuDNN, or unfolded_filter.h.
enum class FilterBy { kCudnn, kUnfolding };

struct ConvolutionAlgorithms {
  Chosen<cudnnConvolutionFwdAlgo_t> forward;
  Chosen<cudnnConvolutionBwdDataAlgo_t> data;
  FilterBy filter_by = FilterBy::kCudnn;
  Chosen<cudnnConvolutionBwdFilterAlgo_t> filter;  // where cuDNN computes it
};

// How much scratch memory an algorithm may ask for. A faster one that needs more is not worth the
// mini-batches that this much holds. FFT takes 1.15 GiB for the filter of a convolution of 64 -> 64 channels
// at 1,024 samples, and what takes less is three times as slow.
inline constexpr std::size_t kWorkspaceBytesMax = std::size_t{3} << 29;

// Winograd's transforms of large tiles, as for 5x5 filters, add and subtract numbers much larger than what
// comes out, and lose digits by it: enough for a ReLU after them to flip now and then, which is 1 % of a
// small mini-batch's gradient. FFT is about as fast.
inline bool loses_digits(cudnnConvolutionFwdAlgo_t algorithm) {
  return algorithm == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED;
}
inline bool loses_digits(cudnnConvolutionBwdDataAlgo_t algorithm) {
  return algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED;
}
inline bool loses_digits(cudnnConvolutionBwdFilterAlgo_t algorithm) {
  return algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED;
}

// From what cuDNN measured, the fastest first. `math`: what was asked for. Where that is FMA math, an
// algorithm that says it would use tensor cores is passed over, and its own word for the rest is not needed;
// so is one that loses digits. nullopt: none works.
template <typename Perf>
auto choose(std::span<const Perf> measured, cudnnMathType_t math) {
  using Choice = Chosen<decltype(Perf::algo)>;
  std::optional<Choice> deterministic;
  std::optional<Choice> any;
  for (const Perf& perf : measured) {
    if (perf.status != CUDNN_STATUS_SUCCESS || perf.memory > kWorkspaceBytesMax) continue;
    const bool plain = math == CUDNN_FMA_MATH;
    const bool on_tensor_cores =
        perf.mathType == CUDNN_TENSOR_OP_MATH || perf.mathType == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
    if (plain && (on_tensor_cores || loses_digits(perf.algo))) continue;
    const Choice choice{perf.algo, plain ? CUDNN_FMA_MATH : perf.mathType, perf.determinism, perf.time};
    if (!any) any = choice;
    if (!deterministic && perf.determinism == CUDNN_DETERMINISTIC) deterministic = choice;
  }
  return deterministic ? deterministic : any;
}

// All that an algorithm's time depends on.
struct ConvolutionKey {
  int device;
  cudnnDataType_t type;
  cudnnMathType_t math;
  int samples;
  int in_channels;
  int in_height;
  int in_width;
  int out_channels;
  int kernel;
  int stride;
  int padding;
  auto operator<=>(const ConvolutionKey&) const = default;
};

// A node's. Thread: any.
class AlgorithmCache {
 public:
  using Measure = std::function<Result<ConvolutionAlgorithms>()>;

  // What is known for `key`; else what `measure` says, one at a time. Its errors are returned and not kept.
  Result<ConvolutionAlgorithms> get(const ConvolutionKey& key, const Measure& measure) {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(key);
    if (known != known_.end()) return known->second;
    PACELINE_ASSIGN_OR_RETURN(const ConvolutionAlgorithms measured, measure());
    known_.emplace(key, measured);
    return measured;
  }

 private:
  std::mutex mutex_;
  std::map<ConvolutionKey, ConvolutionAlgorithms> known_;
};

}  // namespace paceline::cuda
