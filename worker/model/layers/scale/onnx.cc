// A number for each channel is [C, 1, 1] beside an image.
#include "worker/model/onnx_graph.h"

namespace paceline::layers::scale {

namespace {

std::string beside(OnnxGraph& graph, const char* what, const ParameterRange& range) {
  const std::string tensor = graph.tensor(range);
  if (graph.rank() == OnnxGraph::Rank::kVector) return tensor;
  return graph.compute(what, "Unsqueeze", {tensor, graph.integers("axes", {1, 2})});
}

}  // namespace

void to_onnx(const Layer& layer, OnnxGraph& graph) {
  const OnnxGraph::Names product{graph.inputs().front(), beside(graph, "factors", layer.weight)};
  if (layer.bias.size == 0) return graph.give(graph.rank(), "Mul", product);
  graph.give(graph.rank(), "Add",
             {graph.compute("product", "Mul", product), beside(graph, "terms", layer.bias)});
}

}  // namespace paceline::layers::scale
