#include "worker/model/layers/reference_layer.h"

#include <string>

#include "common/assert.h"

namespace paceline {

#define PACELINE_DECLARE(key, name, on_gpu)                                              \
  namespace layers::name {                                                               \
  std::unique_ptr<ReferenceLayer> make_reference(const Layer& layer, std::size_t index); \
  }
PACELINE_LAYER_KINDS(PACELINE_DECLARE)
#undef PACELINE_DECLARE

std::unique_ptr<ReferenceLayer> make_reference_layer(const Layer& layer, std::size_t index) {
  switch (layer.kind) {
#define PACELINE_CASE(key, name, on_gpu) \
  case LayerKind::key:                   \
    return layers::name::make_reference(layer, index);
    PACELINE_LAYER_KINDS(PACELINE_CASE)
#undef PACELINE_CASE
  }
  PACELINE_ASSERT(false, "layer kind " + std::to_string(static_cast<int>(layer.kind)));
}

void add_bias(const ReferencePass& pass, const Layer& layer, Values& out) {
  if (layer.bias.size == 0) return pass.keep(out);
  pass.keep(out);
  const std::int64_t plane = layer.out.height * layer.out.width;
  double* values = out.data();
  for (std::int64_t n = 0; n < pass.samples; ++n, values += layer.out.size()) {
    for (std::int64_t j = 0; j < layer.out.size(); ++j)
      values[j] += pass.parameters[layer.bias.offset + j / plane];
  }
  pass.keep(out);
}

void add_bias_gradient(const ReferencePass& pass, const Layer& layer, const Values& out_difference) {
  if (layer.bias.size == 0) return;
  const std::int64_t plane = layer.out.height * layer.out.width;
  const double* values = out_difference.data();
  for (std::int64_t n = 0; n < pass.samples; ++n, values += layer.out.size()) {
    for (std::int64_t j = 0; j < layer.out.size(); ++j)
      pass.gradient[layer.bias.offset + j / plane] += values[j];
  }
}

}  // namespace paceline
