// Which algorithm cuDNN computes each pass of a convolution with. cuDNN measures those it has
// (cudnnFind...Algorithm); of these the fastest that gives the same bits each time is taken, or the fastest
// of all where none does. Measured once for each shape and GPU of a node: its threads then agree, so the same
// mini-batch gives the same gradient on each, and no measurement disturbs another.
//
//   measured          ALGO_0 1.0 ms not deterministic   ALGO_1 1.2 ms deterministic   FFT 3 ms deterministic
//   taken             ALGO_1
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
  Algorithm algorithm;
  cudnnMathType_t math;  // what it was measured with, and is to be run with
};

struct ConvolutionAlgorithms {
  Chosen<cudnnConvolutionFwdAlgo_t> forward;
  Chosen<cudnnConvolutionBwdDataAlgo_t> data;
  Chosen<cudnnConvolutionBwdFilterAlgo_t> filter;
};

// How much scratch memory an algorithm may ask for. A faster one that needs more is not worth the
// mini-batches that this much holds.
inline constexpr std::size_t kWorkspaceBytesMax = std::size_t{512} << 20;

// From what cuDNN measured, the fastest first. `math`: what was asked for. Where that is FMA math, an
// algorithm that says it would use tensor cores is passed over, and its own word for the rest is not needed.
// nullopt: none works.
template <typename Perf>
auto choose(std::span<const Perf> measured, cudnnMathType_t math) {
  using Choice = Chosen<decltype(Perf::algo)>;
  std::optional<Choice> deterministic;
  std::optional<Choice> any;
  for (const Perf& perf : measured) {
    if (perf.status != CUDNN_STATUS_SUCCESS || perf.memory > kWorkspaceBytesMax) continue;
    const bool plain = math == CUDNN_FMA_MATH;
    if (plain &&
        (perf.mathType == CUDNN_TENSOR_OP_MATH || perf.mathType == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION)) {
      continue;
    }
    const Choice choice{perf.algo, plain ? CUDNN_FMA_MATH : perf.mathType};
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
