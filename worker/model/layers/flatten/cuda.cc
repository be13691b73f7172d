#include "worker/model/layers/cuda_layer.h"

namespace paceline::layers::flatten {

extern const cuda::GpuKind kGpu{.is_nothing = true};

}  // namespace paceline::layers::flatten
