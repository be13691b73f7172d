// The channels of its inputs, one input's after another's.
#include <limits>

#include "common/network/layer_rule.h"

namespace paceline::layers::concat {
namespace {

Status infer(const LayerConfig&, LayerDraft& draft) {
  const Shape& first = draft.in().front();
  Shape& out = draft.layer().out;
  out.channels = 0;
  for (const Shape& shape : draft.in()) {
    if (shape.height != first.height || shape.width != first.width) {
      return invalid_argument("inputs of " + to_string(first) + " and " + to_string(shape) +
                              ", expected inputs of one height and width");
    }
    out.channels += shape.channels;
  }
  return Status::ok();
}

}  // namespace

extern const LayerRule kRule{.default_name = "concat",
                             .inputs_min = 2,
                             .inputs_max = std::numeric_limits<int>::max(),
                             .moves_channels = true,
                             .infer = infer};

}  // namespace paceline::layers::concat
