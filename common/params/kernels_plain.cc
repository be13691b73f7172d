// The loops with what every processor of the architecture has.
#include "common/params/kernel_loops.h"

namespace paceline::kernels {
constinit const Kernels kPlainKernels = table(InstructionSet::kPlain, "plain");
}  // namespace paceline::kernels
