#include "worker/model/gpu_module.h"

#include <dlfcn.h>

#include <string>

namespace paceline {
namespace {

constexpr const char* kModule = "libpaceline_cuda.so";

Status does_not_load() {
  return failed_precondition(std::string("train.device: cuda, but its back end does not load: ") + dlerror() +
                             " (it is built where the CUDA Toolkit and cuDNN are, -DPACELINE_CUDA=ON; or "
                             "train.device: cpu)");
}

}  // namespace

Result<std::shared_ptr<Gpus>> load_gpus(const GpuChoice& choice) {
  // Never unloaded: back ends, and what they are made with, are its code. Found where the program's run path
  // says, which is beside it.
  void* module = dlopen(kModule, RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) return does_not_load();
  auto* open = reinterpret_cast<OpenGpus*>(dlsym(module, kOpenGpus));
  if (open == nullptr) return does_not_load();
  Result<std::shared_ptr<Gpus>> opened = internal_error("nothing was opened");
  open(choice, opened);
  if (!opened.is_ok()) return Status(opened.status()).with_context("train.device: cuda");
  return opened;
}

}  // namespace paceline
