// Nothing in an evaluation.
#include "worker/model/onnx_graph.h"

namespace paceline::layers::dropout {

void to_onnx(const Layer&, OnnxGraph& graph) { graph.pass(); }

}  // namespace paceline::layers::dropout
