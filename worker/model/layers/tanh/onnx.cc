#include "worker/model/onnx_graph.h"

namespace paceline::layers::tanh {

void to_onnx(const Layer&, OnnxGraph& graph) { graph.give(graph.rank(), "Tanh", graph.inputs()); }

}  // namespace paceline::layers::tanh
