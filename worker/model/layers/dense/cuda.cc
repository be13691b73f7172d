#include <utility>

#include "worker/model/cuda/dense.h"
#include "worker/model/layers/cuda_layer.h"

namespace paceline::layers::dense {
namespace {

template <typename T>
Result<std::unique_ptr<cuda::GpuLayer<T>>> make(cuda::LayerParts<T> parts) {
  return std::unique_ptr<cuda::GpuLayer<T>>(std::make_unique<cuda::Dense<T>>(
      parts.gpu, parts.layer, parts.samples, parts.precision, std::move(parts.behind)));
}

}  // namespace

extern const cuda::GpuKind kGpu{PACELINE_MADE_BY(make), .does_relu_and_pool = true};

}  // namespace paceline::layers::dense
