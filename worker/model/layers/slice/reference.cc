#include <algorithm>

#include "worker/model/layers/reference_layer.h"

namespace paceline::layers::slice {
namespace {

class Slice final : public ReferenceLayer {
 public:
  explicit Slice(const Layer& layer)
      : in_(layer.in.size()),
        out_(layer.out.size()),
        first_(layer.first_channel * layer.in.height * layer.in.width) {}

  void forward(const ReferencePass& pass, std::span<const Values* const> in, Values& out) override {
    for (std::int64_t n = 0; n < pass.samples; ++n) {
      std::copy_n(in[0]->begin() + n * in_ + first_, out_, out.begin() + n * out_);
    }
  }

  void backward(const ReferencePass& pass, std::span<const Values* const>, const Values&,
                const Values& out_difference, std::span<Values> in_differences) override {
    for (std::int64_t n = 0; n < pass.samples; ++n) {
      std::copy_n(out_difference.begin() + n * out_, out_, in_differences[0].begin() + n * in_ + first_);
    }
  }

 private:
  const std::int64_t in_;  // values of a sample
  const std::int64_t out_;
  const std::int64_t first_;  // of them
};

}  // namespace

std::unique_ptr<ReferenceLayer> make_reference(const Layer& layer, std::size_t) {
  return std::make_unique<Slice>(layer);
}

}  // namespace paceline::layers::slice
