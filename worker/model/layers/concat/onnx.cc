#include "worker/model/onnx_graph.h"

namespace paceline::layers::concat {

void to_onnx(const Layer&, OnnxGraph& graph) {
  graph.give(graph.rank(), "Concat", graph.inputs(), {{"axis", std::int64_t{1}}});
}

}  // namespace paceline::layers::concat
