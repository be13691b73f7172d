#include <algorithm>
#include <optional>

#include "worker/model/layers/onednn_layer.h"

namespace paceline::layers::dropout {
namespace {

using namespace onednn;

// In an evaluation its primitives are left out, so it always works in place, on a copy where it must.
class Dropout final : public OnednnLayer {
 public:
  explicit Dropout(std::size_t index) : index_(index) {}

  memory forward(Program& program, const Surroundings& around) override {
    output_ = around.sources[0];
    if (!around.may_overwrite) {
      output_ = program.make(output_.get_desc());
      program.append_reorder(Pass::kForward, around.sources[0], output_);
    }
    // Drawn in the layer's own order, then brought into the format of the activations.
    const memory::desc drawn = plain(onednn::dims_of(output_.get_desc()));
    mask_ = {index_, program.make_lasting(drawn)};
    // A smaller mini-batch leaves the tail as it is.
    std::fill_n(floats_of(mask_->drawn), drawn.get_size() / sizeof(float), 0.0F);
    factors_ = mask_->drawn;
    if (output_.get_desc() != drawn) {
      factors_ = program.make(output_.get_desc());
      program.append_reorder(Pass::kForward, mask_->drawn, factors_, When::kTraining);
    }
    multiply(program, Pass::kForward, output_);
    return output_;
  }

  std::vector<memory> backward(Program& program, const memory& difference,
                               const std::vector<bool>&) override {
    const memory result = program.in_format(Pass::kBackward, difference, output_.get_desc());
    multiply(program, Pass::kBackward, result);
    return {result};
  }

  const Mask* mask() const override { return &*mask_; }

 private:
  // By the mask, element by element, in training.
  void multiply(Program& program, Pass pass, const memory& target) const {
    const auto desc = describe::binary(program.engine(), dnnl::algorithm::binary_mul, target.get_desc(),
                                       factors_.get_desc());
    program.append<dnnl::binary>(
        pass, desc, {{DNNL_ARG_SRC_0, target}, {DNNL_ARG_SRC_1, factors_}, {DNNL_ARG_DST, target}},
        When::kTraining);
  }

  const std::size_t index_;
  memory output_;
  memory factors_;  // the mask in the output's format
  std::optional<Mask> mask_;
};

std::unique_ptr<OnednnLayer> make(const Layer&, std::size_t index, std::int64_t) {
  return std::make_unique<Dropout>(index);
}

}  // namespace

extern const OnednnKind kOnednn{.make = make};

}  // namespace paceline::layers::dropout
