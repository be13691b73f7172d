#include "worker/model/onnx_graph.h"

namespace paceline::layers::sigmoid {

void to_onnx(const Layer&, OnnxGraph& graph) { graph.give(graph.rank(), "Sigmoid", graph.inputs()); }

}  // namespace paceline::layers::sigmoid
