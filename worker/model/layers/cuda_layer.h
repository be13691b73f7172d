// What a layer kind is on a GPU: one for each kind that is there, in layers/<kind>/cuda.cc, which says how
// its layer is made of what worker/model/cuda has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/config/run_config.h"
#include "common/network/network.h"
#include "common/status.h"
#include "worker/model/cuda/algorithms.h"
#include "worker/model/cuda/layer.h"
#include "worker/model/cuda/trained_layer.h"

namespace paceline::cuda {

// What a layer is made of. `gpu` outlives it.
template <typename T>
struct LayerParts {
  const GpuThread& gpu;
  AlgorithmCache& cache;
  const Layer& layer;  // with its parameters' places on the GPU
  std::size_t index;   // in the network
  int samples;
  Precision precision;
  std::uint64_t seed;
  Behind<T> behind;  // what it does of the layers after it; nothing but where the kind does that
};

template <typename T>
using MakeLayer = Result<std::unique_ptr<GpuLayer<T>>> (*)(LayerParts<T> parts);

struct GpuKind {
  MakeLayer<float> make_float = nullptr;
  MakeLayer<Bfloat16> make_bfloat16 = nullptr;
  MakeLayer<Float16> make_float16 = nullptr;
  bool is_nothing = false;          // the memory is the same before and after; it is never made
  bool does_relu = false;           // right after it
  bool does_relu_and_pool = false;  // a ReLU, and then a max-pool, right after it
  bool is_relu = false;
  bool is_max_pool = false;
};

// The first three of a GpuKind, by a template of a MakeLayer.
#define PACELINE_MADE_BY(make)                                                  \
  .make_float = make<float>, .make_bfloat16 = make<::paceline::cuda::Bfloat16>, \
  .make_float16 = make<::paceline::cuda::Float16>

// Null for one that is not on a GPU.
const GpuKind* gpu_kind(LayerKind kind);

}  // namespace paceline::cuda
