#include "worker/model/layers/reference_layer.h"

namespace paceline::layers::flatten {
namespace {

class Flatten final : public ReferenceLayer {
 public:
  void forward(const ReferencePass&, std::span<const Values* const> in, Values& out) override {
    out = *in[0];
  }

  void backward(const ReferencePass&, std::span<const Values* const>, const Values&,
                const Values& out_difference, std::span<Values> in_differences) override {
    in_differences[0] = out_difference;
  }
};

}  // namespace

std::unique_ptr<ReferenceLayer> make_reference(const Layer&, std::size_t) {
  return std::make_unique<Flatten>();
}

}  // namespace paceline::layers::flatten
