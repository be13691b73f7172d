#include "common/cuda/load_module.h"

#include <dlfcn.h>

namespace paceline {
namespace {

constexpr const char* kModule = "libpaceline_cuda.so";

Status does_not_load(const std::string& key) {
  return failed_precondition(key + ": cuda, but its back end does not load: " + dlerror() +
                             " (it is built where the CUDA Toolkit and cuDNN are, -DPACELINE_CUDA=ON; or " +
                             key + ": cpu)");
}

}  // namespace

Result<void*> cuda_module_function(const char* name, const std::string& key) {
  // Found where the program's run path says, which is beside it.
  void* const module = dlopen(kModule, RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) return does_not_load(key);
  void* const found = dlsym(module, name);
  if (found == nullptr) return does_not_load(key);
  return found;
}

}  // namespace paceline
