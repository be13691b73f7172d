// The mean of each window, as Caffe divides (pooling_layer.cpp): by the part of the window that lies in the
// padded image. Padding counts, what hangs over it (window_end: ceil) does not.
#include "common/network/layer_rule.h"

namespace paceline::layers::average_pool {
namespace {

WindowDefaults defaults(std::int64_t kernel) { return {kernel, 0}; }

Status infer(const LayerConfig& config, LayerDraft& draft) {
  return draft.slide_window(config, defaults(config.kernel));
}

}  // namespace

extern const LayerRule kRule{.default_name = "average_pool",
                             .window = defaults,
                             .has_window_end = true,
                             .gives_logits = true,
                             .infer = infer};

}  // namespace paceline::layers::average_pool
