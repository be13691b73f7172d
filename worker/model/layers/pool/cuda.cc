#include <utility>

#include "worker/model/cuda/plain_layers.h"
#include "worker/model/layers/cuda_layer.h"

namespace paceline::layers::pool {
namespace {

template <typename T>
Result<std::unique_ptr<cuda::GpuLayer<T>>> make(cuda::LayerParts<T> parts) {
  PACELINE_ASSIGN_OR_RETURN(auto pooling, cuda::Pooling<T>::make(parts.gpu, parts.layer, parts.samples));
  return std::unique_ptr<cuda::GpuLayer<T>>(std::make_unique<cuda::MaxPool<T>>(std::move(pooling)));
}

}  // namespace

extern const cuda::GpuKind kGpu{PACELINE_MADE_BY(make), .is_max_pool = true};

}  // namespace paceline::layers::pool
