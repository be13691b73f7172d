#include "worker/model/cuda/plain_layers.h"
#include "worker/model/layers/cuda_layer.h"

namespace paceline::layers::relu {
namespace {

template <typename T>
Result<std::unique_ptr<cuda::GpuLayer<T>>> make(cuda::LayerParts<T> parts) {
  return std::unique_ptr<cuda::GpuLayer<T>>(
      std::make_unique<cuda::Relu<T>>(parts.gpu, parts.layer, parts.samples));
}

}  // namespace

extern const cuda::GpuKind kGpu{PACELINE_MADE_BY(make), .is_relu = true};

}  // namespace paceline::layers::relu
