#include "worker/model/onnx_graph.h"

namespace paceline::layers::slice {

void to_onnx(const Layer& layer, OnnxGraph& graph) {
  graph.give(
      graph.rank(), "Slice",
      {graph.inputs().front(), graph.integers("begin", {layer.first_channel}),
       graph.integers("end", {layer.first_channel + layer.out.channels}), graph.integers("axis", {1})});
}

}  // namespace paceline::layers::slice
