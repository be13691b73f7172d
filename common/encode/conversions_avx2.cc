// The loops in 256-bit registers. Runs only where kernels::find() has found AVX2.
#include "common/encode/conversion_loops.h"

namespace paceline::conversions {
constinit const Conversions kAvx2Conversions = table(InstructionSet::kAvx2, "avx2");
}  // namespace paceline::conversions
