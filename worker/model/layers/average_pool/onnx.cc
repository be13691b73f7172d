// Programs divide differently where an average pool has padding of its own (onnxruntime 1.32, OpenCV 4.12 and 5.0), so
// it is a Pad and a pool without. What hangs over the padded image counts in that pool and not in ours: such windows
// are multiplied by the quotient of both.
#include "worker/model/layers/average_pool/divisor.h"
#include "worker/model/onnx_graph.h"

namespace paceline::layers::average_pool {

void to_onnx(const Layer& layer, OnnxGraph& graph) {
  const OnnxWindow rows = onnx_window(layer, layer.in.height, layer.out.height);
  const OnnxWindow columns = onnx_window(layer, layer.in.width, layer.out.width);
  std::string image = graph.image();
  if (rows.before + rows.after + columns.before + columns.after > 0) {
    const std::string pads =
        graph.integers("pads", {0, 0, rows.before, columns.before, 0, 0, rows.after, columns.after});
    image = graph.compute("padded", "Pad", {image, pads});
  }
  const OnnxGraph::Attributes window{{"kernel_shape", std::vector{layer.kernel, layer.kernel}},
                                     {"strides", std::vector{layer.stride, layer.stride}}};
  bool hangs_over = false;
  std::vector<float> quotients;
  for (std::int64_t y = 0; y < layer.out.height; ++y) {
    for (std::int64_t x = 0; x < layer.out.width; ++x) {
      const auto pixels = static_cast<double>(layer.kernel * layer.kernel);
      quotients.push_back(static_cast<float>(pixels / static_cast<double>(divisor(layer, y, x))));
      hangs_over = hangs_over || quotients.back() != 1.0F;
    }
  }
  if (!hangs_over) return graph.give(OnnxGraph::Rank::kImage, "AveragePool", {image}, window);
  const std::string mean = graph.compute("mean", "AveragePool", {image}, window);
  graph.give(OnnxGraph::Rank::kImage, "Mul",
             {mean, graph.floats("quotients", {layer.out.height, layer.out.width}, quotients)});
}

}  // namespace paceline::layers::average_pool
