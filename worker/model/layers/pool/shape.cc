#include "common/network/layer_rule.h"

namespace paceline::layers::pool {
namespace {

// It divides the size where nothing else is said.
WindowDefaults defaults(std::int64_t kernel) { return {kernel, 0}; }

Status infer(const LayerConfig& config, LayerDraft& draft) {
  return draft.slide_window(config, defaults(config.kernel));
}

}  // namespace

extern const LayerRule kRule{.default_name = "pool", .window = defaults, .infer = infer};

}  // namespace paceline::layers::pool
