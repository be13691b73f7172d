#include "worker/model/onnx_graph.h"

namespace paceline::layers::conv {

void to_onnx(const Layer& layer, OnnxGraph& graph) {
  OnnxGraph::Names inputs{graph.image(), graph.tensor(layer.weight)};
  if (layer.bias.size > 0) inputs.push_back(graph.tensor(layer.bias));
  const std::int64_t p = layer.padding;
  graph.give(OnnxGraph::Rank::kImage, "Conv", inputs,
             {{"kernel_shape", std::vector{layer.kernel, layer.kernel}},
              {"strides", std::vector{layer.stride, layer.stride}},
              {"dilations", std::vector{layer.dilation, layer.dilation}},
              {"pads", std::vector{p, p, p, p}},
              {"group", layer.groups}});
}

}  // namespace paceline::layers::conv
