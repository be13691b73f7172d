#include "common/network/layer_rule.h"

namespace paceline::layers::relu {
namespace {

Status infer(const LayerConfig&, LayerDraft&) { return Status::ok(); }

}  // namespace

extern const LayerRule kRule{.default_name = "relu", .infer = infer};

}  // namespace paceline::layers::relu
