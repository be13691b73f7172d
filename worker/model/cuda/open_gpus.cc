#include "worker/model/cuda/open_gpus.h"

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "common/config/names.h"
#include "common/cuda/devices.h"
#include "common/cuda/page_locked.h"
#include "worker/model/cuda/algorithms.h"
#include "worker/model/cuda/cuda_backend.h"
#include "worker/model/cuda/device_vectors.h"
#include "worker/model/cuda/gpu_thread.h"
#include "worker/model/cuda/resident_data.h"

namespace paceline::cuda {
namespace {

constexpr int kTensorCoresSince = 8;  // compute capability, of TF32 and bfloat16

class OpenGpus final : public Gpus {
 public:
  OpenGpus(std::vector<std::uint32_t> devices, Precision precision)
      : devices_(std::move(devices)),
        precision_(precision),
        whole_gpu_(std::make_shared<std::mutex>()),
        cache_(std::make_shared<AlgorithmCache>()),
        pages_(std::make_shared<PinnedPages>(NodeGpus(devices_))) {}

  Result<Kept> keep(const DataSet& set, const Normalization& normalization,
                    const BatchOptions& options) override {
    const std::set<std::uint32_t> each(devices_.begin(), devices_.end());
    // On all or on none: a worker's mini-batches have images or have none, whichever its thread.
    for (const std::uint32_t device : each) {
      const Result<bool> room = fits(set, static_cast<int>(device));
      if (!room) return on_gpu(device, room.status());
      if (!*room) return Kept::kNo;
    }
    std::map<std::uint32_t, std::shared_ptr<const ResidentData>> kept;
    for (const std::uint32_t device : each) {
      auto made = make_resident(set, normalization, options, static_cast<int>(device));
      if (!made) return on_gpu(device, made.status());
      kept[device] = std::move(made).value();
    }
    kept_ = std::move(kept);
    return Kept::kYes;
  }

  void warn_to(Warn warn) override { warn_ = std::move(warn); }

  Result<ThreadOfGpu> for_thread(std::uint32_t index, NormGroup* norm_group) override {
    const std::uint32_t device = device_of(index);
    PACELINE_ASSIGN_OR_RETURN(auto gpu, GpuThread::open(static_cast<int>(device), whole_gpu_, warn_));
    auto model = std::make_shared<ThreadModel>();
    if (const auto found = kept_.find(device); found != kept_.end()) model->data = found->second;
    return ThreadOfGpu{
        [gpu, model, cache = cache_, precision = precision_, norm_group](
            const NetworkSpec& network, std::int64_t batch_size, std::uint64_t seed) {
          return make_cuda_backend(gpu, model, *cache, network, batch_size, precision, seed, norm_group);
        },
        [gpu, model, pages = pages_](const NetworkSpec& network, const OptimizerSection& optimizer) {
          return make_device_vectors(gpu, model, pages, network, optimizer);
        },
        precision_ == Precision::kFp16 ? std::shared_ptr<LossScaler>(model, &model->loss_scaler) : nullptr};
  }

  std::uint32_t device_of(std::uint32_t index) const override { return devices_[index % devices_.size()]; }

  std::shared_ptr<std::pmr::memory_resource> page_locked(
      std::shared_ptr<std::pmr::memory_resource> upstream) override {
    return cuda::page_locked(NodeGpus(devices_), std::move(upstream));
  }
  Result<std::shared_ptr<void>> pin(std::span<const std::byte> pages) override { return pages_->pin(pages); }

 private:
  static Status on_gpu(std::uint32_t device, Status status) {
    return std::move(status).with_context("GPU " + std::to_string(device));
  }

  const std::vector<std::uint32_t> devices_;
  const Precision precision_;
  const std::shared_ptr<std::mutex> whole_gpu_;
  const std::shared_ptr<AlgorithmCache> cache_;
  const std::shared_ptr<PinnedPages> pages_;
  // Both are written before the first thread is asked for.
  std::map<std::uint32_t, std::shared_ptr<const ResidentData>> kept_;  // by GPU
  Warn warn_ = [](const std::string&) {};
};

// Whether it can compute as `precision` says.
Status check_capability(std::uint32_t device, Precision precision) {
  if (precision == Precision::kFp32 || precision == Precision::kFp16) return Status::ok();
  int major = 0;
  PACELINE_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, static_cast<int>(device)));
  if (major >= kTensorCoresSince) return Status::ok();
  return unavailable("GPU " + std::to_string(device) + " has compute capability " + std::to_string(major) +
                     ".x; precision " + name_of(precision) + " needs " + std::to_string(kTensorCoresSince) +
                     ".0 (train.precision: fp32)");
}

}  // namespace

Result<std::shared_ptr<Gpus>> open_gpus(const GpuChoice& choice) {
  PACELINE_ASSIGN_OR_RETURN(std::vector<std::uint32_t> devices,
                            existing_devices(choice.devices, "train.devices"));
  for (const std::uint32_t device : devices) {
    PACELINE_RETURN_IF_ERROR(check_capability(device, choice.precision));
  }
  return std::shared_ptr<Gpus>(std::make_shared<OpenGpus>(std::move(devices), choice.precision));
}

}  // namespace paceline::cuda
