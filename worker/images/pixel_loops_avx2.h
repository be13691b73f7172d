#pragma once

#include "worker/images/pixel_loops.h"

namespace paceline::pixels {
// Of x86-64 builds only, and of processors that have AVX2. Filled in at compile time.
extern const Loops kAvx2Loops;
}  // namespace paceline::pixels
