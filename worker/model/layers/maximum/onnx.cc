#include "worker/model/onnx_graph.h"

namespace paceline::layers::maximum {

void to_onnx(const Layer&, OnnxGraph& graph) { graph.give(graph.rank(), "Max", graph.inputs()); }

}  // namespace paceline::layers::maximum
