// By the running statistics, debiased; where it has no scale and shift it gets 1 and 0.
#include "worker/model/onnx_graph.h"

namespace paceline::layers::batch_norm {

namespace {

// Sums of measurements divided by the sum of their weights; 0 where nothing was measured.
std::vector<float> statistics(const Layer& layer, const OnnxGraph& graph, const ParameterRange& range) {
  const std::span<const float> sums = graph.values(range);
  std::vector<float> of(sums.begin(), sums.end());
  if (layer.running_weight.size == 0) return of;
  const float weight = graph.values(layer.running_weight).front();
  for (float& value : of) value = weight == 0.0F ? 0.0F : value / weight;
  return of;
}

}  // namespace

void to_onnx(const Layer& layer, OnnxGraph& graph) {
  const bool is_affine = layer.weight.size > 0;
  const std::vector<std::int64_t> shape{layer.out.channels};
  const std::vector<float> ones(static_cast<std::size_t>(layer.out.channels), 1.0F);
  const std::vector<float> zeros(static_cast<std::size_t>(layer.out.channels), 0.0F);
  graph.give(
      graph.rank(), "BatchNormalization",
      {graph.inputs().front(), is_affine ? graph.tensor(layer.weight) : graph.floats("one", shape, ones),
       is_affine ? graph.tensor(layer.bias) : graph.floats("zero", shape, zeros),
       graph.tensor(layer.running_mean, statistics(layer, graph, layer.running_mean)),
       graph.tensor(layer.running_variance, statistics(layer, graph, layer.running_variance))},
      {{"epsilon", static_cast<float>(layer.epsilon)}});
}

}  // namespace paceline::layers::batch_norm
