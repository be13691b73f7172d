// The tables behind conversions.h, one for each file that instantiates conversion_loops.h. Constants, filled
// in at compile time: nothing of a set that the processor lacks runs before find() has asked for it.
#pragma once

#include "common/encode/conversions.h"

namespace paceline::conversions {

extern const Conversions kPlainConversions;
// Of x86-64 builds only.
extern const Conversions kAvx2Conversions;

}  // namespace paceline::conversions
