#include "common/network/layer_rule.h"

namespace paceline::layers::flatten {
namespace {

Status infer(const LayerConfig&, LayerDraft& draft) {
  Layer& layer = draft.layer();
  layer.out = {layer.in.size(), 1, 1};
  layer.is_vector = true;
  return Status::ok();
}

}  // namespace

extern const LayerRule kRule{.default_name = "flatten", .infer = infer};

}  // namespace paceline::layers::flatten
