#include <algorithm>

#include "worker/model/layers/reference_layer.h"

namespace paceline::layers::concat {
namespace {

class Concat final : public ReferenceLayer {
 public:
  void forward(const ReferencePass& pass, std::span<const Values* const> in, Values& out) override {
    auto to = out.begin();
    for (std::int64_t n = 0; n < pass.samples; ++n) {
      for (const Values* const part : in) {
        const std::int64_t floats = std::ssize(*part) / pass.samples;
        to = std::copy_n(part->begin() + n * floats, floats, to);
      }
    }
  }

  void backward(const ReferencePass& pass, std::span<const Values* const>, const Values&,
                const Values& out_difference, std::span<Values> in_differences) override {
    auto from = out_difference.begin();
    for (std::int64_t n = 0; n < pass.samples; ++n) {
      for (Values& part : in_differences) {
        const std::int64_t floats = std::ssize(part) / pass.samples;
        std::copy_n(from, floats, part.begin() + n * floats);
        from += floats;
      }
    }
  }
};

}  // namespace

std::unique_ptr<ReferenceLayer> make_reference(const Layer&, std::size_t) {
  return std::make_unique<Concat>();
}

}  // namespace paceline::layers::concat
