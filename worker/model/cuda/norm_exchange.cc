#include "worker/model/cuda/norm_exchange.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "common/assert.h"

namespace paceline::cuda {

Result<NormExchange> NormExchange::make(const GpuThread& gpu, NormGroup& group, std::int64_t channels) {
  NormExchange exchange(gpu, group);
  PACELINE_ASSIGN_OR_RETURN(exchange.host_, make_pinned_memory<float>(3 * channels));
  return exchange;
}

Result<std::int64_t> NormExchange::combine(const NormOfPart& part, double epsilon, float* statistics) {
  PACELINE_ASSIGN_OR_RETURN(NormPart own, fetch(part, statistics));
  const auto values = static_cast<float>(part.samples * part.places);
  for (float& squares : own.second) squares *= values;
  const paceline::NormStatistics all =
      combined(group_->exchange(part.layer, NormPass::kForward, std::move(own)), part.places);
  const auto channels = static_cast<std::size_t>(part.channels);
  const std::span<float> host = host_.all();
  std::ranges::copy(all.mean, host.begin());
  std::ranges::copy(all.variance, host.subspan(channels).begin());
  std::ranges::transform(all.variance, host.subspan(2 * channels).begin(),
                         [&](double variance) { return 1.0 / std::sqrt(variance + epsilon); });
  PACELINE_RETURN_IF_ERROR(send(3 * part.channels, statistics));
  return all.values;
}

Status NormExchange::correct(const NormOfPart& part, float* sums) {
  PACELINE_ASSIGN_OR_RETURN(NormPart own, fetch(part, sums));
  const NormCorrection owed = correction_of(group_->exchange(part.layer, NormPass::kBackward, std::move(own)),
                                            part.samples, part.places);
  std::ranges::copy(owed.first, host_.data());
  std::ranges::copy(owed.second, host_.data() + part.channels);
  return send(2 * part.channels, sums);
}

Result<NormPart> NormExchange::fetch(const NormOfPart& part, const float* from) {
  PACELINE_ASSERT(3 * part.channels <= host_.size(), std::to_string(part.channels) + " channels");
  PACELINE_CUDA(cudaMemcpyAsync(host_.data(), from,
                                static_cast<std::size_t>(2 * part.channels) * sizeof(float),
                                cudaMemcpyDeviceToHost, gpu_->compute()));
  // It spins: a wake-up for each layer and pass would take longer than what is waited for.
  PACELINE_CUDA(cudaStreamSynchronize(gpu_->compute()));
  const float* const first = host_.data();
  const float* const second = first + part.channels;
  return NormPart{part.samples, {first, second}, {second, second + part.channels}};
}

Status NormExchange::send(std::int64_t floats, float* to) {
  PACELINE_CUDA(cudaMemcpyAsync(to, host_.data(), static_cast<std::size_t>(floats) * sizeof(float),
                                cudaMemcpyHostToDevice, gpu_->compute()));
  return Status::ok();
}

}  // namespace paceline::cuda
