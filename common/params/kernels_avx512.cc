// The loops with AVX-512's instructions and 32 registers, of 256 bits: when 512 were tried they were no
// faster anywhere and up to a tenth slower within the last-level cache. Runs only where kernels.cc has found
// AVX-512 F, VL and DQ.
#include "common/params/kernel_loops.h"

namespace paceline::kernels {
constinit const Kernels kAvx512Kernels = table(InstructionSet::kAvx512, "avx512");
}  // namespace paceline::kernels
