// Across channels it is ONNX's own. Within one: in / (1 + alpha x mean of squares over the square)^beta, where outside
// the image there are zeros that count.
#include <tuple>

#include "worker/model/onnx_graph.h"

namespace paceline::layers::lrn {

void to_onnx(const Layer& layer, OnnxGraph& graph) {
  const LrnConfig& lrn = layer.lrn;
  const auto [alpha, beta, k] =
      std::tuple{static_cast<float>(lrn.alpha), static_cast<float>(lrn.beta), static_cast<float>(lrn.k)};
  const std::string in = graph.image();
  if (lrn.region == LrnRegion::kAcross) {
    return graph.give(OnnxGraph::Rank::kImage, "LRN", {in},
                      {{"alpha", alpha}, {"beta", beta}, {"bias", k}, {"size", lrn.size}});
  }
  const std::int64_t reach = lrn.size / 2;
  const auto number = [&](const char* what, const float& value) {
    return graph.floats(what, {}, std::span(&value, 1));
  };
  const std::string square = graph.compute("square", "Mul", {in, in});
  const std::string padded = graph.compute(
      "padded", "Pad", {square, graph.integers("pads", {0, 0, reach, reach, 0, 0, reach, reach})});
  const std::string mean = graph.compute(
      "mean", "AveragePool", {padded},
      {{"kernel_shape", std::vector{lrn.size, lrn.size}}, {"strides", std::vector<std::int64_t>{1, 1}}});
  const std::string part = graph.compute("part", "Mul", {mean, number("alpha", alpha)});
  const std::string sum = graph.compute("sum", "Add", {part, number("k", k)});
  const std::string power = graph.compute("power", "Pow", {sum, number("beta", beta)});
  graph.give(OnnxGraph::Rank::kImage, "Div", {in, power});
}

}  // namespace paceline::layers::lrn
