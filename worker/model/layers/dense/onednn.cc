#include <optional>

#include "worker/model/layers/onednn_trained.h"

namespace paceline::layers::dense {
namespace {

using namespace onednn;
using Forward = dnnl::inner_product_forward;
using BackwardData = dnnl::inner_product_backward_data;
using BackwardWeights = dnnl::inner_product_backward_weights;

// Reads an image as it lies: out, channels, height, width. No flatten. Weights stay row-major: bringing
// megabytes of them into another format and back cost more than it gained.
class Dense final : public OnednnLayer {
 public:
  Dense(const Layer& layer, std::int64_t samples)
      : layer_(layer), out_{samples, layer.out.channels}, trained_{layer} {}

  memory forward(Program& program, const Surroundings& around) override {
    with_relu_ = around.with_relu;
    type_ = program.products();
    in_ = onednn::dims_of(around.sources[0].get_desc());
    trained_.weight = in_;
    trained_.weight[0] = layer_.out.channels;
    forward_ = describe::primitive<Forward>(
        program.engine(), attributes_with(with_relu_), dnnl::prop_kind::forward_training, any(in_, type_),
        plain(trained_.weight, type_), bias_desc(layer_), plain(out_, output_type(program, around)));
    return append_output<Forward>(program, trained_, around.sources[0], *forward_);
  }

  std::vector<memory> backward(Program& program, const memory& difference,
                               const std::vector<bool>& wanted) override {
    const auto parameters =
        describe::backward<BackwardWeights>(program.engine(), *forward_, any(in_, type_),
                                            plain(trained_.weight), bias_desc(layer_), any(out_, type_));
    append_parameter_gradient<BackwardWeights>(program, trained_, difference, parameters);
    if (!wanted[0]) return {memory()};
    const auto source = describe::backward<BackwardData>(program.engine(), *forward_, any(in_, type_),
                                                         plain(trained_.weight, type_), any(out_, type_));
    return {append_source_difference<BackwardData>(program, trained_, difference, source)};
  }

  bool reads_output() const override { return with_relu_; }

 private:
  const Layer& layer_;
  Dims in_;
  const Dims out_;
  Trained trained_;
  bool with_relu_ = false;
  Type type_ = Type::f32;  // of what is multiplied
  std::optional<Forward::primitive_desc> forward_;
};

}  // namespace

extern const OnednnKind kOnednn{.make = made<Dense>, .narrow = true, .multiplies = true, .does_relu = true};

}  // namespace paceline::layers::dense
