// There are no labels in an evaluation: nobody reads its value.
#include "worker/model/onnx_graph.h"

namespace paceline::layers::sigmoid_loss {

void to_onnx(const Layer&, OnnxGraph& graph) { graph.pass(); }

}  // namespace paceline::layers::sigmoid_loss
