#include <string>

#include "common/network/layer_rule.h"

namespace paceline::layers::dropout {
namespace {

Status infer(const LayerConfig& config, LayerDraft& draft) {
  if (!(config.rate >= 0.0 && config.rate < 1.0)) {
    return invalid_argument("rate " + std::to_string(config.rate) + ", expected 0 <= rate < 1");
  }
  draft.layer().rate = config.rate;
  draft.layer().is_random = true;
  return Status::ok();
}

}  // namespace

extern const LayerRule kRule{.default_name = "dropout", .has_rate = true, .infer = infer};

}  // namespace paceline::layers::dropout
