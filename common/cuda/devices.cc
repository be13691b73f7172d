#include "common/cuda/devices.h"

#include <cuda_runtime_api.h>

#include <numeric>

#include "common/cuda/status.h"

namespace paceline::cuda {

Result<std::vector<std::uint32_t>> existing_devices(std::vector<std::uint32_t> devices,
                                                    const std::string& key) {
  int count = 0;
  PACELINE_CUDA(cudaGetDeviceCount(&count));
  if (count == 0) return unavailable("cudaGetDeviceCount: no GPU on this machine");
  if (devices.empty()) {
    devices.resize(static_cast<std::size_t>(count));
    std::iota(devices.begin(), devices.end(), 0U);
  }
  for (const std::uint32_t device : devices) {
    if (device < static_cast<std::uint32_t>(count)) continue;
    return unavailable("GPU " + std::to_string(device) + " of " + key + ": this machine has " +
                       std::to_string(count) + ", numbered from 0");
  }
  return devices;
}

}  // namespace paceline::cuda
