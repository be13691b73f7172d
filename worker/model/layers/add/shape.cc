// The sum of its inputs, element by element, as at the end of a residual block (He et al., 2016).
#include <limits>

#include "common/network/layer_rule.h"

namespace paceline::layers::add {
namespace {

Status infer(const LayerConfig&, LayerDraft& draft) {
  const Shape& first = draft.in().front();
  for (const Shape& shape : draft.in()) {
    if (shape == first) continue;
    return invalid_argument("inputs of " + to_string(first) + " and " + to_string(shape) +
                            ", expected inputs of one shape");
  }
  return Status::ok();
}

}  // namespace

extern const LayerRule kRule{.default_name = "add",
                             .inputs_min = 2,
                             .inputs_max = std::numeric_limits<int>::max(),
                             .gives_logits = true,
                             .infer = infer};

}  // namespace paceline::layers::add
