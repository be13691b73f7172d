// The sum of its inputs, element by element, as at the end of a residual block (He et al., 2016); each times its
// coefficient, where there are some.
#include <limits>

#include "common/network/layer_rule.h"

namespace paceline::layers::add {
namespace {

Status infer(const LayerConfig& config, LayerDraft& draft) {
  const std::size_t given = config.coefficients.size();
  if (given > 0 && given != draft.in().size()) {
    return invalid_argument(std::to_string(given) + " coefficients, expected one for each of " +
                            std::to_string(draft.in().size()) + " inputs");
  }
  draft.layer().coefficients = config.coefficients;
  return draft.check_one_shape();
}

}  // namespace

extern const LayerRule kRule{.default_name = "add",
                             .inputs_min = 2,
                             .inputs_max = std::numeric_limits<int>::max(),
                             .has_coefficients = true,
                             .gives_logits = true,
                             .infer = infer};

}  // namespace paceline::layers::add
