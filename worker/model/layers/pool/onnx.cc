// Padding is never the maximum in ONNX, too. Windows that hang over the image are padding after it.
#include "worker/model/onnx_graph.h"

namespace paceline::layers::pool {

void to_onnx(const Layer& layer, OnnxGraph& graph) {
  const OnnxWindow rows = onnx_window(layer, layer.in.height, layer.out.height);
  const OnnxWindow columns = onnx_window(layer, layer.in.width, layer.out.width);
  graph.give(OnnxGraph::Rank::kImage, "MaxPool", {graph.image()},
             {{"kernel_shape", std::vector{layer.kernel, layer.kernel}},
              {"strides", std::vector{layer.stride, layer.stride}},
              {"pads", std::vector{rows.before, columns.before, rows.after, columns.after}}});
}

}  // namespace paceline::layers::pool
