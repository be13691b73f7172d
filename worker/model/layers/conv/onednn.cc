#include <optional>

#include "worker/model/layers/onednn_trained.h"
#include "worker/model/layers/onednn_window.h"

namespace paceline::layers::conv {
namespace {

using namespace onednn;
using dnnl::algorithm;
using Forward = dnnl::convolution_forward;
using BackwardData = dnnl::convolution_backward_data;
using BackwardWeights = dnnl::convolution_backward_weights;

// The library takes the groups of a weight as its first dimension; in the vector it lies the same.
Dims weight_dims(const Layer& layer) {
  const Dims one{layer.out.channels / layer.groups, layer.in.channels / layer.groups, layer.kernel,
                 layer.kernel};
  if (layer.groups == 1) return one;
  Dims grouped{layer.groups};
  grouped.insert(grouped.end(), one.begin(), one.end());
  return grouped;
}

class Convolution final : public OnednnLayer {
 public:
  Convolution(const Layer& layer, std::int64_t samples)
      : layer_(layer),
        in_(dims_of(samples, layer.in)),
        out_(dims_of(samples, layer.out)),
        trained_{layer, weight_dims(layer)} {}

  memory forward(Program& program, const Surroundings& around) override {
    with_relu_ = around.with_relu;
    type_ = program.products();
    forward_ = describe::primitive<Forward>(program.engine(), attributes_with(with_relu_),
                                            dnnl::prop_kind::forward_training, algorithm::convolution_direct,
                                            any(in_, type_), any(trained_.weight, type_), bias_desc(layer_),
                                            any(out_, output_type(program, around)), strides_of(layer_),
                                            dilation_of(layer_), padding_of(layer_), padding_of(layer_));
    return append_output<Forward>(program, trained_, around.sources[0], *forward_);
  }

  std::vector<memory> backward(Program& program, const memory& difference,
                               const std::vector<bool>& wanted) override {
    const auto parameters = describe::backward<BackwardWeights>(
        program.engine(), *forward_, algorithm::convolution_direct, any(in_, type_),
        any(trained_.weight, Type::f32), bias_desc(layer_), any(out_, type_), strides_of(layer_),
        dilation_of(layer_), padding_of(layer_), padding_of(layer_));
    append_parameter_gradient<BackwardWeights>(program, trained_, difference, parameters);
    if (!wanted[0]) return {memory()};
    const auto source = describe::backward<BackwardData>(
        program.engine(), *forward_, algorithm::convolution_direct, any(in_, type_),
        any(trained_.weight, type_), any(out_, type_), strides_of(layer_), dilation_of(layer_),
        padding_of(layer_), padding_of(layer_));
    return {append_source_difference<BackwardData>(program, trained_, difference, source)};
  }

  bool reads_output() const override { return with_relu_; }

 private:
  const Layer& layer_;
  const Dims in_;
  const Dims out_;
  Trained trained_;
  bool with_relu_ = false;
  Type type_ = Type::f32;  // of what is multiplied
  std::optional<Forward::primitive_desc> forward_;
};

}  // namespace

extern const OnednnKind kOnednn{
    .make = made<Convolution>, .narrow = true, .multiplies = true, .does_relu = true};

}  // namespace paceline::layers::conv
