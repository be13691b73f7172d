//   out[c] = sum over y,x of in[c,y,x] / (height * width)
#include <algorithm>
#include <numeric>

#include "worker/model/layers/reference_layer.h"

namespace paceline::layers::global_average_pool {
namespace {

class GlobalAveragePool final : public ReferenceLayer {
 public:
  explicit GlobalAveragePool(const Layer& layer) : plane_(layer.in.height * layer.in.width) {}

  void forward(const ReferencePass& pass, std::span<const Values* const> in, Values& out) override {
    auto from = in[0]->begin();
    for (double& mean : out) {
      mean = std::accumulate(from, from + plane_, 0.0) / static_cast<double>(plane_);
      from += plane_;
    }
    pass.keep(out);
  }

  void backward(const ReferencePass&, std::span<const Values* const>, const Values&,
                const Values& out_difference, std::span<Values> in_differences) override {
    auto to = in_differences[0].begin();
    for (const double difference : out_difference) {
      to = std::fill_n(to, plane_, difference / static_cast<double>(plane_));
    }
  }

 private:
  const std::int64_t plane_;
};

}  // namespace

std::unique_ptr<ReferenceLayer> make_reference(const Layer& layer, std::size_t) {
  return std::make_unique<GlobalAveragePool>(layer);
}

}  // namespace paceline::layers::global_average_pool
