// A batch norm over a group of workers (worker/model/norm_group.h) on a GPU: what a layer has added up goes to the
// host, from there to the other members, and what all have together comes back:
//
//   compute  sums -> host |                                  | whole -> GPU, normalise, next layers …
//   thread                  waits, exchanges, combines, puts …
//
// One place in pinned memory serves all layers: it is written when the stream is empty, and read by that stream in
// turn. So no step is one CUDA graph.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/cuda/resources.h"
#include "common/status.h"
#include "worker/model/cuda/gpu_thread.h"
#include "worker/model/norm_group.h"

namespace paceline::cuda {

// A layer, and of what its numbers are.
struct NormOfPart {
  std::size_t layer;      // in the network
  std::int64_t channels;  // no more than make() was told
  std::int64_t samples;   // of this member's part
  std::int64_t places;    // values of a channel in each sample
};

// Thread: the one that opened the GPU. Errors: CUDA's; that the group is no more status() says, and numbers are then of
// the part alone.
class NormExchange {
 public:
  // For layers of at most `channels`. Both outlive it.
  static Result<NormExchange> make(const GpuThread& gpu, NormGroup& group, std::int64_t channels);

  // `statistics`, on the GPU: mean, variance and 1 / sqrt(variance + epsilon) by channel, one after the other. Of the
  // part, the third not yet, they become those of the group. Returns how many values of a channel it has.
  Result<std::int64_t> combine(const NormOfPart& part, double epsilon, float* statistics);
  // `sums`, on the GPU: sum d(out) and sum d(out) z of the part, one after the other, become what is taken from each
  // d(out), and z times what is (NormCorrection).
  Status correct(const NormOfPart& part, float* sums);

  Status status() const { return group_->status(); }

 private:
  NormExchange(const GpuThread& gpu, NormGroup& group) : gpu_(&gpu), group_(&group) {}
  // Two vectors of `channels` from the GPU: what the part says.
  Result<NormPart> fetch(const NormOfPart& part, const float* from);
  Status send(std::int64_t floats, float* to);

  const GpuThread* gpu_;
  NormGroup* group_;
  PinnedMemory<float> host_;
};

}  // namespace paceline::cuda
