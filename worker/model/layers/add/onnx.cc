#include "worker/model/onnx_graph.h"

namespace paceline::layers::add {

void to_onnx(const Layer& layer, OnnxGraph& graph) {
  OnnxGraph::Names inputs = graph.inputs();
  for (std::size_t i = 0; i < layer.coefficients.size(); ++i) {
    const auto coefficient = static_cast<float>(layer.coefficients[i]);
    if (coefficient == 1.0F) continue;
    const std::string number = std::to_string(i);
    const std::string factor = graph.floats(("coefficient" + number).c_str(), {}, std::span(&coefficient, 1));
    inputs[i] = graph.compute(("input" + number).c_str(), "Mul", {inputs[i], factor});
  }
  graph.give(graph.rank(), "Sum", inputs);
}

}  // namespace paceline::layers::add
