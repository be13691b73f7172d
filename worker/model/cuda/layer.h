// One layer of a network on a GPU. Both passes only put work into a thread's compute stream; nothing waits but a batch
// norm over a group of workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/status.h"
#include "worker/model/cuda/gpu_thread.h"
#include "worker/model/cuda/norm_exchange.h"

namespace paceline::cuda {

enum class Mode { kTraining, kEvaluation };
// Whether a layer does the ReLU right after it.
enum class WithRelu { kNo, kYes };

// What a pass over the layers shares. All pointers are to the GPU's memory.
template <typename T>
struct Pass {
  Mode mode;
  int samples;                     // those from here on only fill the mini-batch up
  const float* parameters;         // each layer's at its place there (placed_network.h)
  const T* weights;                // the same, as T: the same memory where T is float
  float* gradient;                 // as the parameters, written layer by layer
  const std::int64_t* epochs;      // of each sample: the keys of its dropout; not read in evaluation
  const std::int64_t* sample_ids;  // as above
  void* workspace;                 // the largest workspace_bytes() of all layers
  T* unpooled;                     // the largest unpooled_elements() of all layers
  double* group_sums;              // kSumsMax x kGroupsMax times as many as any trained layer has channels
  T* weight_gradient;              // the largest weight's size; not used where T is float
  NormExchange* norms;             // null: a batch norm goes by the mini-batch alone
};

template <typename T>
class GpuLayer {
 public:
  virtual ~GpuLayer() = default;

  // `in`: of each input, the mini-batch's activations in front of the layer; `out`: after it.
  virtual Status forward(const Pass<T>& pass, std::span<const T* const> in, T* out) = 0;

  // From d(loss)/d(out) to d(loss)/d(in), null where nobody needs that; and d(loss)/d(parameters) into
  // pass.gradient. `in` and `out` are as forward() left them. `out_difference` may be written over.
  virtual Status backward(const Pass<T>& pass, std::span<const T* const> in, const T* out, T* out_difference,
                          std::span<T* const> in_differences) = 0;

  // Whether d(loss)/d(this input) is d(loss)/d(out), a ReLU's mask applied: then it may be told to leave it there,
  // in_differences[input] being out_difference.
  virtual bool hands_on(std::size_t /*input*/) const { return false; }

  virtual std::size_t workspace_bytes() const { return 0; }
  // Of memory for what stands between a layer and a pool that it does, too.
  virtual std::int64_t unpooled_elements() const { return 0; }
};

}  // namespace paceline::cuda
