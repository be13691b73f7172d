#include "worker/model/dropout.h"

#include <string>

#include "common/assert.h"

namespace paceline {

void fill_dropout_mask(const Layer& layer, std::size_t layer_index, std::uint64_t seed, const Batch& batch,
                       std::span<float> mask) {
  const std::int64_t elements = layer.out.size();
  PACELINE_ASSERT(static_cast<std::int64_t>(mask.size()) == batch.size() * elements,
                  std::to_string(mask.size()));
  const DropoutRule rule(layer.rate);
  for (std::int64_t n = 0; n < batch.size(); ++n) {
    CounterRandom random = dropout_numbers(seed, batch.epochs[n], batch.sample_ids[n], layer_index);
    float* row = mask.data() + n * elements;
    for (std::int64_t i = 0; i < elements; ++i) row[i] = rule.factor(random.next_u32());
  }
}

}  // namespace paceline
