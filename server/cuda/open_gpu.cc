#include "server/cuda/open_gpu.h"

#include <string>
#include <utility>
#include <vector>

#include "common/cuda/devices.h"
#include "common/cuda/page_locked.h"
#include "server/cuda/shard_on_gpu.h"

namespace paceline::cuda {
namespace {

class ServerGpu final : public server::ServerDevice {
 public:
  explicit ServerGpu(std::uint32_t device)
      : device_(device), pages_(std::make_shared<PinnedPages>(NodeGpus({device}))) {}

  Result<std::unique_ptr<server::ShardDevice>> make_shard(const server::DeviceShard& shard) override {
    auto made = make_shard_on_gpu(static_cast<int>(device_), pages_, shard);
    if (!made.is_ok()) return Status(made.status()).with_context("GPU " + std::to_string(device_));
    return made;
  }
  std::shared_ptr<std::pmr::memory_resource> page_locked(
      std::shared_ptr<std::pmr::memory_resource> upstream) override {
    return cuda::page_locked(NodeGpus({device_}), std::move(upstream));
  }
  Result<std::shared_ptr<void>> pin(std::span<const std::byte> pages) override { return pages_->pin(pages); }

 private:
  const std::uint32_t device_;
  const std::shared_ptr<PinnedPages> pages_;
};

}  // namespace

Result<std::shared_ptr<server::ServerDevice>> open_gpu(const server::ServerGpuChoice& choice) {
  PACELINE_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> devices,
                            existing_devices(choice.devices, "server.devices"));
  const std::uint32_t device = devices[choice.shard.value % devices.size()];
  return std::shared_ptr<server::ServerDevice>(std::make_shared<ServerGpu>(device));
}

}  // namespace paceline::cuda
