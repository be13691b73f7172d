// The loops in 256-bit registers. Runs only where kernels.cc has found AVX2.
#include "common/params/kernel_loops.h"

namespace paceline::kernels {
constinit const Kernels kAvx2Kernels = table(InstructionSet::kAvx2, "avx2");
}  // namespace paceline::kernels
