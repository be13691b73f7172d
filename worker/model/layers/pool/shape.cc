#include "common/network/layer_rule.h"

namespace paceline::layers::pool {
namespace {

// It divides the size where nothing else is said.
WindowDefaults defaults(std::int64_t kernel) { return {kernel, 0}; }

Status infer(const LayerConfig& config, LayerDraft& draft) {
  return draft.slide_window(config, defaults(config.kernel));
}

// Its windows end with the padded input.
bool is_on_gpu(const Layer& layer) {
  const auto fits = [&](std::int64_t out, std::int64_t in) {
    return (out - 1) * layer.stride + layer.kernel <= in + 2 * layer.padding;
  };
  return fits(layer.out.height, layer.in.height) && fits(layer.out.width, layer.in.width);
}

}  // namespace

extern const LayerRule kRule{.default_name = "pool",
                             .window = defaults,
                             .has_window_end = true,
                             .infer = infer,
                             .is_on_gpu = is_on_gpu};

}  // namespace paceline::layers::pool
