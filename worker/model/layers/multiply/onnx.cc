// ONNX multiplies two at a time.
#include "worker/model/onnx_graph.h"

namespace paceline::layers::multiply {

void to_onnx(const Layer& layer, OnnxGraph& graph) {
  const OnnxGraph::Names inputs = graph.inputs();
  std::string product = inputs.front();
  for (std::size_t i = 1; i + 1 < layer.inputs.size(); ++i) {
    product = graph.compute(("product" + std::to_string(i)).c_str(), "Mul", {product, inputs[i]});
  }
  graph.give(graph.rank(), "Mul", {product, inputs.back()});
}

}  // namespace paceline::layers::multiply
