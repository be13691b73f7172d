#include "worker/model/cuda/sum_layer.h"
#include "worker/model/layers/cuda_layer.h"

namespace paceline::layers::add {
namespace {

template <typename T>
Result<std::unique_ptr<cuda::GpuLayer<T>>> make(cuda::LayerParts<T> parts) {
  return std::unique_ptr<cuda::GpuLayer<T>>(
      std::make_unique<cuda::Add<T>>(parts.gpu, parts.layer, parts.samples, parts.behind.relu));
}

}  // namespace

extern const cuda::GpuKind kGpu{PACELINE_MADE_BY(make), .does_relu = true};

}  // namespace paceline::layers::add
