#include "worker/model/onnx_graph.h"

namespace paceline::layers::dense {

void to_onnx(const Layer& layer, OnnxGraph& graph) {
  OnnxGraph::Names inputs{graph.vector(), graph.tensor(layer.weight)};
  if (layer.bias.size > 0) inputs.push_back(graph.tensor(layer.bias));
  graph.give(OnnxGraph::Rank::kVector, "Gemm", inputs, {{"transB", std::int64_t{1}}});
}

}  // namespace paceline::layers::dense
