// The built-in network for a training loop of a user's own: the loop brings samples of any shape, the layers are those
// of train.layers (common/network/network.h), and a back end computes them where the loop runs.
//
// A loop's samples have no place in a data set. The dropout masks of a mini-batch are therefore keyed by its position
// in the run, so that each draws its own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/label.h"
#include "common/metric.h"
#include "common/network/network.h"
#include "common/params/layout.h"
#include "common/status.h"
#include "worker/model/backend.h"

namespace paceline {

// Samples of a mini-batch, at most.
inline constexpr std::int64_t kForeignBatchMax = 1 << 16;

// Thread: the one that made it (worker/model/backend.h). Its calls compute on one core, and leave the thread's OpenMP
// as they found it.
class ForeignNetwork {
 public:
  // `layers`: as parse_layers() reads them; the last gives a logit for each class. `input`: of a sample. For
  // mini-batches of up to `batch_size`. `seed`: of the first parameters and the dropout. Errors: kInvalidArgument.
  static Result<std::unique_ptr<ForeignNetwork>> open(const std::string& layers, Shape input,
                                                      std::int64_t batch_size, std::uint64_t seed);

  const NetworkSpec& spec() const { return spec_; }
  void initialize(std::span<float> parameters) const;

  // `samples`: labels.size() of them, input.size() floats each; a label: 0 .. classes - 1. `position`: of the first in
  // the run. The rest as NetworkBackend's. Errors: kInvalidArgument for sizes and labels that do not fit.
  Result<Metric> gradient(std::span<const float> parameters, std::span<const float> samples,
                          std::span<const std::int64_t> labels, std::int64_t position,
                          std::span<float> gradient);
  Result<Metric> evaluate(std::span<const float> parameters, std::span<const float> samples,
                          std::span<const std::int64_t> labels);

 private:
  ForeignNetwork(NetworkSpec spec, std::unique_ptr<NetworkBackend> backend, std::int64_t batch_size,
                 std::uint64_t seed);
  Result<Batch> batch(std::span<const float> samples, std::span<const std::int64_t> labels,
                      std::int64_t position);

  NetworkSpec spec_;
  std::unique_ptr<NetworkBackend> backend_;
  std::int64_t batch_size_;
  std::uint64_t seed_;
  const std::thread::id made_by_ = std::this_thread::get_id();
  std::vector<Label> labels_;         // of the batch that is computed
  std::vector<std::int64_t> ids_;     // likewise
  std::vector<std::int64_t> epochs_;  // likewise
};

}  // namespace paceline

// What the C interface gives out.
struct paceline_network {
  std::unique_ptr<paceline::ForeignNetwork> network;
};
