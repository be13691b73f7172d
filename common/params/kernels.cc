// Which instruction sets this build and this processor have.
#include "common/params/kernels.h"

#include "common/params/kernel_tables.h"

namespace paceline::kernels {

const Kernels* find(InstructionSet set) {
  switch (set) {
    case InstructionSet::kPlain:
      return &kPlainKernels;
#ifdef PACELINE_X86_KERNELS
    // What __builtin_cpu_supports affirms, the processor has and the operating system has switched on.
    case InstructionSet::kAvx2:
      return __builtin_cpu_supports("avx2") ? &kAvx2Kernels : nullptr;
    case InstructionSet::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                     __builtin_cpu_supports("avx512dq")
                 ? &kAvx512Kernels
                 : nullptr;
#else
    case InstructionSet::kAvx2:
    case InstructionSet::kAvx512:
      return nullptr;
#endif
  }
  return nullptr;
}

const Kernels& best() {
  static const Kernels chosen = [] {
    const Kernels* const avx512 = find(InstructionSet::kAvx512);
    const Kernels* const avx2 = find(InstructionSet::kAvx2);
    Kernels loops = avx512 != nullptr ? *avx512 : avx2 != nullptr ? *avx2 : kPlainKernels;
    // Its divisions and roots take all the time there is, and AVX-512's masks come on top
    // (bench_apply_bandwidth).
    if (avx2 != nullptr) {
      loops.adam = avx2->adam;
      loops.adam_past_cache = avx2->adam_past_cache;
    }
    return loops;
  }();
  return chosen;
}

}  // namespace paceline::kernels
