// The oneDNN back end: the fast one, on one core. Only onednn*.cc, layers/*/onednn.cc and
// the private headers between them see the library.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/library_version.h"
#include "common/status.h"
#include "worker/model/backend.h"

namespace paceline {

// Contract as make_backend (backend.h). Sets the calling thread's OpenMP team size to 1: oneDNN bakes the
// number of threads into a primitive when it is made.
Result<std::unique_ptr<NetworkBackend>> make_onednn_backend(NetworkSpec network, std::int64_t batch_size,
                                                            std::uint64_t seed,
                                                            NormGroup* norm_group = nullptr,
                                                            Precision precision = Precision::kFp32);

// As check_precision() (backend.h). bfloat16 needs AVX-512: with its bf16 instructions it is fast, without them the
// library converts on the way, and only memory is saved.
Status check_onednn_precision(Precision precision);

// The library's versions, and the instruction set that it computes with on this processor ("avx2").
LibraryVersion onednn_version();
std::string onednn_instruction_set();

}  // namespace paceline
