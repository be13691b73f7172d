#include "common/network/layer_rule.h"

namespace paceline::layers::tanh {
namespace {

Status infer(const LayerConfig&, LayerDraft&) { return Status::ok(); }

}  // namespace

extern const LayerRule kRule{.default_name = "tanh", .infer = infer};

}  // namespace paceline::layers::tanh
