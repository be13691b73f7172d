#include "worker/model/onnx_graph.h"

namespace paceline::layers::global_average_pool {

void to_onnx(const Layer&, OnnxGraph& graph) {
  graph.give(OnnxGraph::Rank::kImage, "GlobalAveragePool", {graph.image()});
}

}  // namespace paceline::layers::global_average_pool
