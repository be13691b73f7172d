// Groups of batch norm whose members compute on GPUs, for the tests of that on a real GPU and on the fake one.
#pragma once

#include <atomic>
#include <utility>

#include "tests/unit/cuda_fixture.h"
#include "tests/unit/norm_group_fixture.h"

namespace paceline {

// A member with its thread cache on a GPU, the node's `index`-th thread; built for one sample more than it gets where
// that is an odd number.
inline MemberStep member_on_gpu(Gpus& gpus, std::uint32_t index, const NetworkSpec& network,
                                const SharedFloats& parameters, std::int64_t samples, NormGroup& group) {
  const auto thread = gpus.for_thread(index, &group);
  REQUIRE(thread.is_ok());
  std::shared_ptr<CacheVectors> vectors = thread->make_vectors(network, OptimizerSection{}).value();
  vectors->take_over(0, parameters, {});
  std::shared_ptr<NetworkBackend> backend = thread->make_backend(network, samples + samples % 2, 5).value();
  return [vectors, backend](const Batch& part, std::span<float> gradient) {
    return backend->gradient({}, part, gradient, whole_at_the_end);
  };
}

// Three steps, of which the second and the third would be graphs, of each network by groups of parts of these sizes.
inline void check_groups_on_gpus(const std::vector<std::vector<std::int64_t>>& groups, Members are,
                                 double tolerance, std::uint64_t seed = 3, const Beside& beside = {}) {
  auto networks = normalised_networks(6, 4);
  LayerConfig plain = batch_norm();
  plain.affine = false;
  plain.debias = true;
  networks.push_back({conv_without_bias(6, 3), plain, relu(), dense(10)});
  const auto gpus = cuda::open_gpus({{}, beside.precision});
  REQUIRE(gpus.is_ok());
  for (const auto& layers : networks) {
    const auto is_there = [](const LayerConfig& layer) { return is_on_gpu(layer.kind); };
    if (!std::all_of(layers.begin(), layers.end(), is_there)) continue;
    const NetworkSpec network = network_of(layers, {3, 8, 8}, 10);
    const auto held = std::make_shared<const std::vector<float>>(random_parameters(network, seed));
    for (const auto& sizes : groups) {
      INFO(layers.size() << " layers, " << sizes.size() << " members, seed " << seed);
      const std::int64_t samples = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
      const RandomBatch batch(network, samples, seed);
      std::atomic<std::uint32_t> index = 0;
      const OfGroup got = computed_in_parts(
          network, batch, sizes, are,
          [&](std::int64_t part, NormGroup& group) {
            return member_on_gpu(**gpus, index++, network, SharedFloats(held), part, group);
          },
          3);
      check_parts(got, network, batch, *held, samples, tolerance, beside.activations);
    }
  }
}

}  // namespace paceline
