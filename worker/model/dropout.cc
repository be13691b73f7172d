#include "worker/model/dropout.h"

#include <string>

#include "common/assert.h"
#include "common/random.h"

namespace paceline {

void fill_dropout_mask(const NetworkSpec& network, std::size_t layer_index, std::uint64_t seed,
                       const Batch& batch, std::span<float> mask) {
  const Layer& layer = network.layers[layer_index];
  const std::int64_t elements = layer.out.size();
  PACELINE_ASSERT(static_cast<std::int64_t>(mask.size()) == batch.size() * elements,
                  std::to_string(mask.size()));
  // An element is dropped when its 32-bit number is below rate * 2^32.
  const auto dropped_below = static_cast<std::uint64_t>(layer.rate * 0x1.0p32);
  const auto kept = static_cast<float>(1.0 / (1.0 - layer.rate));
  for (std::int64_t n = 0; n < batch.size(); ++n) {
    CounterRandom random(seed, Stream::kDropout, static_cast<std::uint64_t>(batch.epochs[n]),
                         static_cast<std::uint64_t>(batch.sample_ids[n]), layer_index);
    float* row = mask.data() + n * elements;
    for (std::int64_t i = 0; i < elements; ++i) row[i] = random.next_u32() < dropped_below ? 0.0F : kept;
  }
}

}  // namespace paceline
