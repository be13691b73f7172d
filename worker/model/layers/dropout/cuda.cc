#include "worker/model/cuda/plain_layers.h"
#include "worker/model/layers/cuda_layer.h"

namespace paceline::layers::dropout {
namespace {

template <typename T>
Result<std::unique_ptr<cuda::GpuLayer<T>>> make(cuda::LayerParts<T> parts) {
  return std::unique_ptr<cuda::GpuLayer<T>>(
      std::make_unique<cuda::Dropout<T>>(parts.gpu, parts.layer, parts.index, parts.samples, parts.seed));
}

}  // namespace

extern const cuda::GpuKind kGpu{PACELINE_MADE_BY(make)};

}  // namespace paceline::layers::dropout
