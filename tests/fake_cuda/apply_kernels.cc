// A server's kernels (server/cuda/apply_bodies.h) of the fake GPU.
#include "server/cuda/apply_bodies.h"
#include "tests/fake_cuda/launch_each.h"

namespace paceline::cuda {

PACELINE_CUDA_APPLY_BODIES(PACELINE_INSTANTIATE_LAUNCH)

}  // namespace paceline::cuda
