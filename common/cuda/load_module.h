// Where CUDA's side of the programs is loaded: libpaceline_cuda.so beside them, when a run asks for a GPU and
// not before. The libraries that it needs take 70 ms and 200 MB of a process that only looks at them, and
// need not be on a machine that computes on its CPU. Nothing of CUDA is in here.
#pragma once

#include <memory>
#include <string>

#include "common/status.h"

namespace paceline {

// The module's function of this C name. Never unloaded: what it opens, and all that is made with it, is its
// code. `key`: of the configuration that asks for it ("train.device"), which the message begins with. Errors:
// kFailedPrecondition the module does not load, because this build has none, or a library of CUDA's is not
// found. Thread: any.
Result<void*> cuda_module_function(const char* name, const std::string& key);

// What that function opens for `choice`: it is void(const Choice&, Result<std::shared_ptr<Opened>>&). Errors
// begin with `key`: the above, and those of the function.
template <typename Opened, typename Choice>
Result<std::shared_ptr<Opened>> open_in_cuda_module(const char* name, const std::string& key,
                                                    const Choice& choice) {
  using Open = void(const Choice&, Result<std::shared_ptr<Opened>>&);
  PACELINE_ASSIGN_OR_RETURN(void* const found, cuda_module_function(name, key));
  Result<std::shared_ptr<Opened>> opened = internal_error("nothing was opened");
  reinterpret_cast<Open*>(found)(choice, opened);
  if (!opened.is_ok()) return Status(opened.status()).with_context(key + ": cuda");
  return opened;
}

}  // namespace paceline
