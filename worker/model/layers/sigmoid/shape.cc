#include "common/network/layer_rule.h"

namespace paceline::layers::sigmoid {
namespace {

Status infer(const LayerConfig&, LayerDraft&) { return Status::ok(); }

}  // namespace

extern const LayerRule kRule{.default_name = "sigmoid", .infer = infer};

}  // namespace paceline::layers::sigmoid
