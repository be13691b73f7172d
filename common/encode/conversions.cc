// Which instruction sets this build and this processor have is kernels::find()'s answer.
#include "common/encode/conversions.h"

#include "common/encode/conversion_tables.h"

namespace paceline::conversions {

const Conversions* find(InstructionSet set) {
  if (kernels::find(set) == nullptr) return nullptr;
  switch (set) {
    case InstructionSet::kPlain:
      return &kPlainConversions;
    case InstructionSet::kAvx2:
#ifdef PACELINE_X86_KERNELS
      return &kAvx2Conversions;
#endif
    case InstructionSet::kAvx512:
      break;
  }
  return nullptr;
}

const Conversions& best() {
  static const Conversions& chosen = []() -> const Conversions& {
    const Conversions* const avx2 = conversions::find(InstructionSet::kAvx2);
    return avx2 != nullptr ? *avx2 : kPlainConversions;
  }();
  return chosen;
}

}  // namespace paceline::conversions
