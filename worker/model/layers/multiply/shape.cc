// The product of its inputs, element by element (Caffe's Eltwise PROD).
#include <limits>

#include "common/network/layer_rule.h"

namespace paceline::layers::multiply {
namespace {

Status infer(const LayerConfig&, LayerDraft& draft) { return draft.check_one_shape(); }

}  // namespace

extern const LayerRule kRule{.default_name = "multiply",
                             .inputs_min = 2,
                             .inputs_max = std::numeric_limits<int>::max(),
                             .gives_logits = true,
                             .infer = infer};

}  // namespace paceline::layers::multiply
