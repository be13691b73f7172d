// What oneDNN says of itself.
#include <dnnl.hpp>

#include "worker/model/onednn.h"

namespace paceline {
namespace {

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
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      return "sse4.1";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2";
    case dnnl::cpu_isa::avx512_core:
    case dnnl::cpu_isa::avx512_core_vnni:
    case dnnl::cpu_isa::avx512_core_bf16:
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512";
    default:
      return "another";
  }
}

}  // namespace paceline
