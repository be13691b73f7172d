#include <utility>

#include "worker/model/cuda/convolution.h"
#include "worker/model/layers/cuda_layer.h"

namespace paceline::layers::conv {
namespace {

template <typename T>
Result<std::unique_ptr<cuda::GpuLayer<T>>> make(cuda::LayerParts<T> parts) {
  return cuda::make_convolution<T>(parts.gpu, parts.cache, parts.layer, parts.samples, parts.precision,
                                   std::move(parts.behind));
}

}  // namespace

extern const cuda::GpuKind kGpu{PACELINE_MADE_BY(make), .does_relu_and_pool = true};

}  // namespace paceline::layers::conv
