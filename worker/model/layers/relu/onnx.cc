#include "worker/model/onnx_graph.h"

namespace paceline::layers::relu {

void to_onnx(const Layer&, OnnxGraph& graph) { graph.give(graph.rank(), "Relu", graph.inputs()); }

}  // namespace paceline::layers::relu
