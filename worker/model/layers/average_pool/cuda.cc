#include "worker/model/cuda/average_pools.h"
#include "worker/model/layers/cuda_layer.h"

namespace paceline::layers::average_pool {
namespace {

template <typename T>
Result<std::unique_ptr<cuda::GpuLayer<T>>> make(cuda::LayerParts<T> parts) {
  return std::unique_ptr<cuda::GpuLayer<T>>(
      std::make_unique<cuda::AveragePool<T>>(parts.gpu, parts.layer, parts.samples));
}

}  // namespace

extern const cuda::GpuKind kGpu{PACELINE_MADE_BY(make)};

}  // namespace paceline::layers::average_pool
