#include "worker/model/cuda/resident_data.h"

#include <algorithm>
#include <span>

namespace paceline::cuda {
namespace {

// What is pinned for the copy, for as long as it takes.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

Result<DeviceMemory<std::uint8_t>> upload(std::span<const std::uint8_t> bytes,
                                          const PinnedMemory<std::uint8_t>& staging, cudaStream_t stream) {
  PACELINE_ASSIGN_OR_RETURN(auto there, make_device_memory<std::uint8_t>(std::ssize(bytes)));
  for (std::size_t first = 0; first < bytes.size(); first += kPieceBytes) {
    const auto piece = bytes.subspan(first, std::min(kPieceBytes, bytes.size() - first));
    std::copy(piece.begin(), piece.end(), staging.data());
    PACELINE_CUDA(
        cudaMemcpyAsync(there.data() + first, staging.data(), piece.size(), cudaMemcpyHostToDevice, stream));
    PACELINE_CUDA(cudaStreamSynchronize(stream));
  }
  return there;
}

}  // namespace

Result<bool> fits(const DataSet& set, int device) {
  PACELINE_CUDA(cudaSetDevice(device));
  std::size_t free = 0;
  std::size_t total = 0;
  PACELINE_CUDA(cudaMemGetInfo(&free, &total));
  return set.pixels.size() + set.labels.size() <= free / 4;
}

Result<std::shared_ptr<const ResidentData>> make_resident(const DataSet& set,
                                                          const Normalization& normalization,
                                                          const BatchOptions& options, int device) {
  PACELINE_CUDA(cudaSetDevice(device));
  auto resident = std::make_shared<ResidentData>();
  resident->samples = set.size();
  resident->normalization = normalization;
  resident->options = options;
  PACELINE_ASSIGN_OR_RETURN(const auto staging, make_pinned_memory<std::uint8_t>(kPieceBytes));
  // Gone before the memory that its copies are of.
  PACELINE_ASSIGN_OR_RETURN(const Stream stream, make_stream());
  PACELINE_ASSIGN_OR_RETURN(resident->pixels, upload(set.pixels, staging, stream.get()));
  PACELINE_ASSIGN_OR_RETURN(resident->labels, upload(set.labels, staging, stream.get()));
  return std::shared_ptr<const ResidentData>(std::move(resident));
}

}  // namespace paceline::cuda
