// Each channel times a number, and plus one where it has a bias: what follows a batch_norm that has neither.
#include "common/network/layer_rule.h"

namespace paceline::layers::scale {
namespace {

Status infer(const LayerConfig& config, LayerDraft& draft) {
  const std::int64_t channels = draft.layer().out.channels;
  PACELINE_RETURN_IF_ERROR(draft.add_parameters(config, {channels}, TensorRole::kNorm));
  if (draft.layer().weight_init.kind == FillerKind::kUsual) {
    draft.layer().weight_init = {.kind = FillerKind::kConstant, .value = 1.0};
  }
  return Status::ok();
}

}  // namespace

extern const LayerRule kRule{.default_name = "scale",
                             .has_parameters = true,
                             .may_lack_bias = true,
                             .may_share = true,
                             .infer = infer};

}  // namespace paceline::layers::scale
