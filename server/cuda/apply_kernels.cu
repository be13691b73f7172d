// The bodies of apply_bodies.h on a GPU: of the server the one file that needs nvcc.
#include "common/cuda/launch_each.cuh"
#include "server/cuda/apply_bodies.h"

namespace paceline::cuda {

PACELINE_CUDA_APPLY_BODIES(PACELINE_INSTANTIATE_LAUNCH)

}  // namespace paceline::cuda
