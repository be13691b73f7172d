// Local response normalisation (Krizhevsky et al., "ImageNet classification with deep convolutional neural
// networks", 2012, section 3.3), across channels or within each.
#include "common/network/layer_rule.h"

namespace paceline::layers::lrn {
namespace {

Status infer(const LayerConfig& config, LayerDraft& draft) {
  PACELINE_RETURN_IF_ERROR(check_range("size", config.size, 1, kLayerOutMax));
  if (config.size % 2 == 0) {
    return invalid_argument("size " + std::to_string(config.size) + ", expected an odd number");
  }
  if (config.region == LrnRegion::kWithin && config.k != 1.0) {
    return invalid_argument("k " + std::to_string(config.k) + " with region within, expected 1");
  }
  draft.layer().lrn = {config.region, config.size, config.alpha, config.beta, config.k};
  return Status::ok();
}

}  // namespace

extern const LayerRule kRule{.default_name = "lrn", .is_lrn = true, .infer = infer};

}  // namespace paceline::layers::lrn
