// The loops with what every processor of the architecture has.
#include "common/encode/conversion_loops.h"

namespace paceline::conversions {
constinit const Conversions kPlainConversions = table(InstructionSet::kPlain, "plain");
}  // namespace paceline::conversions
