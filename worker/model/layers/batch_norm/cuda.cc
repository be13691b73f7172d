#include <utility>

#include "worker/model/cuda/batch_norm.h"
#include "worker/model/layers/cuda_layer.h"

namespace paceline::layers::batch_norm {
namespace {

template <typename T>
Result<std::unique_ptr<cuda::GpuLayer<T>>> make(cuda::LayerParts<T> parts) {
  PACELINE_ASSIGN_OR_RETURN(auto norm, cuda::BatchNorm<T>::make(parts.gpu, parts.layer, parts.index,
                                                                parts.samples, parts.behind.relu));
  return std::unique_ptr<cuda::GpuLayer<T>>(std::make_unique<cuda::BatchNorm<T>>(std::move(norm)));
}

}  // namespace

extern const cuda::GpuKind kGpu{PACELINE_MADE_BY(make), .does_relu = true};

}  // namespace paceline::layers::batch_norm
