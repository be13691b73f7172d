#include "worker/model/cuda/open_gpus.h"

#include <numeric>
#include <string>
#include <utility>

#include "worker/model/cuda/algorithms.h"
#include "worker/model/cuda/cuda_backend.h"
#include "worker/model/cuda/gpu_thread.h"

namespace paceline::cuda {
namespace {

constexpr int kTensorCoresSince = 8;  // compute capability, of TF32 and bfloat16

class OpenGpus final : public Gpus {
 public:
  OpenGpus(std::vector<std::uint32_t> devices, Precision precision)
      : devices_(std::move(devices)), precision_(precision), cache_(std::make_shared<AlgorithmCache>()) {}

  Result<MakeBackend> for_thread(std::uint32_t index) override {
    const auto device = static_cast<int>(devices_[index % devices_.size()]);
    PACELINE_ASSIGN_OR_RETURN(auto gpu, GpuThread::open(device));
    return MakeBackend([gpu, cache = cache_, precision = precision_](
                           const NetworkSpec& network, std::int64_t batch_size, std::uint64_t seed) {
      return make_cuda_backend(gpu, *cache, network, batch_size, precision, seed);
    });
  }

 private:
  const std::vector<std::uint32_t> devices_;
  const Precision precision_;
  const std::shared_ptr<AlgorithmCache> cache_;
};

Result<int> count_gpus() {
  int count = 0;
  PACELINE_CUDA(cudaGetDeviceCount(&count));
  if (count == 0) return unavailable("cudaGetDeviceCount: no GPU on this machine");
  return count;
}

// Whether it can compute as `precision` says.
Status check_capability(std::uint32_t device, Precision precision) {
  if (precision == Precision::kFp32) return Status::ok();
  int major = 0;
  PACELINE_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, static_cast<int>(device)));
  if (major >= kTensorCoresSince) return Status::ok();
  return unavailable("GPU " + std::to_string(device) + " has compute capability " + std::to_string(major) +
                     ".x; precision tf32 or bf16 needs " + std::to_string(kTensorCoresSince) +
                     ".0 (train.precision: fp32)");
}

}  // namespace

Result<std::shared_ptr<Gpus>> open_gpus(const GpuChoice& choice) {
  PACELINE_ASSIGN_OR_RETURN(const int count, count_gpus());
  std::vector<std::uint32_t> devices = choice.devices;
  if (devices.empty()) {
    devices.resize(static_cast<std::size_t>(count));
    std::iota(devices.begin(), devices.end(), 0U);
  }
  for (const std::uint32_t device : devices) {
    if (device >= static_cast<std::uint32_t>(count)) {
      return unavailable("GPU " + std::to_string(device) + " of train.devices: this machine has " +
                         std::to_string(count) + ", numbered from 0");
    }
    PACELINE_RETURN_IF_ERROR(check_capability(device, choice.precision));
  }
  return std::shared_ptr<Gpus>(std::make_shared<OpenGpus>(std::move(devices), choice.precision));
}

}  // namespace paceline::cuda
