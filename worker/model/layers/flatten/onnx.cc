#include "worker/model/onnx_graph.h"

namespace paceline::layers::flatten {

void to_onnx(const Layer&, OnnxGraph& graph) {
  graph.give(OnnxGraph::Rank::kVector, "Flatten", graph.inputs(), {{"axis", std::int64_t{1}}});
}

}  // namespace paceline::layers::flatten
