#include "worker/model/layers/cuda_layer.h"

namespace paceline {

#define PACELINE_DECLARE(key, name, on_gpu) \
  namespace layers::name {                  \
  extern const cuda::GpuKind kGpu;          \
  }
PACELINE_LAYER_KINDS(PACELINE_DECLARE)
#undef PACELINE_DECLARE

const cuda::GpuKind* cuda::gpu_kind(LayerKind kind) {
  switch (kind) {
#define PACELINE_CASE(key, name, on_gpu) \
  case LayerKind::key:                   \
    if constexpr (on_gpu) {              \
      return &layers::name::kGpu;        \
    } else {                             \
      return nullptr;                    \
    }
    PACELINE_LAYER_KINDS(PACELINE_CASE)
#undef PACELINE_CASE
  }
  return nullptr;
}

}  // namespace paceline
