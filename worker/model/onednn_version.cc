// What oneDNN says of itself.
#include <dnnl.hpp>

#include "worker/model/onednn.h"

namespace paceline {
namespace {

// Each set has the bits of those that it includes.
bool has(dnnl::cpu_isa set) {
  const auto bits = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (bits & static_cast<unsigned>(set)) == static_cast<unsigned>(set);
}

std::string dotted_dnnl(int major, int minor, int patch) {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

}  // namespace

LibraryVersion onednn_version() {
  const dnnl_version_t* const running = dnnl_version();
  return {"oneDNN", dotted_dnnl(DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH),
          dotted_dnnl(running->major, running->minor, running->patch)};
}

std::string onednn_instruction_set() {
  if (has(dnnl::cpu_isa::avx512_core)) return "avx512";
  if (has(dnnl::cpu_isa::avx2)) return "avx2";
  if (has(dnnl::cpu_isa::avx)) return "avx";
  return has(dnnl::cpu_isa::sse41) ? "sse4.1" : "another";
}

Status check_onednn_precision(Precision precision) {
  if (precision == Precision::kFp32 || has(dnnl::cpu_isa::avx512_core)) return Status::ok();
  return unavailable("train.precision: this machine's oneDNN computes with " + onednn_instruction_set() +
                     ", got bf16, expected fp32, or a processor with AVX-512");
}

}  // namespace paceline
