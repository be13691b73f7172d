// Which GPUs of this machine a configuration names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"

namespace paceline::cuda {

// `devices`, as CUDA numbers them, or all that there are where it is empty. `key`: of the configuration that
// lists them, for the message. Errors, each naming what is missing: kUnavailable when there is no driver, no
// GPU, or not the one that is listed.
Result<std::vector<std::uint32_t>> existing_devices(std::vector<std::uint32_t> devices,
                                                    const std::string& key);

}  // namespace paceline::cuda
