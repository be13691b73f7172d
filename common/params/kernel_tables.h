// The tables behind kernels.h, one for each file that instantiates kernel_loops.h. Constants, filled in at
// compile time: nothing of a set that the processor lacks runs before find() has asked for it.
#pragma once

#include "common/params/kernels.h"

namespace paceline::kernels {

extern const Kernels kPlainKernels;
// Of x86-64 builds only.
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;

}  // namespace paceline::kernels
