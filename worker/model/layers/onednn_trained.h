// What the layers with a weight and a bias have in common: a ReLU done after them, and the two halves of
// their backward pass.
#pragma once

#include <optional>

#include "worker/model/layers/onednn_layer.h"

namespace paceline::onednn {

inline dnnl::primitive_attr attributes_with(bool relu) {
  dnnl::primitive_attr attr = attributes();
  if (relu) {
    dnnl::post_ops post_ops;
    describe::append_relu(post_ops);
    attr.set_post_ops(post_ops);
  }
  return attr;
}

// What a trained layer's forward pass leaves for its backward pass.
struct Trained {
  const Layer& layer;
  Dims weight{};
  memory source{};
  memory read{};     // the source in the format that the forward primitive reads
  memory weights{};  // and the weight
};

// In a backward pass; a format that the forward pass has made already is not made again.
inline memory weights_for(Program& program, const Trained& of, const memory::desc& wanted) {
  if (of.weights.get_desc() == wanted) return of.weights;
  return program.in_format(Pass::kBackward, program.parameter(of.layer.weight, of.weight), wanted);
}
// What a layer that multiplies gives.
inline Type output_type(const Program& program, const Surroundings& around) {
  return around.wide_output ? Type::f32 : program.products();
}

inline Dims bias_dims(const Layer& layer) { return {layer.out.channels}; }
// For a description; an empty one where there is no bias.
inline memory::desc bias_desc(const Layer& layer) {
  return layer.bias.size > 0 ? plain(bias_dims(layer)) : memory::desc();
}

// What the layer gives of that source.
template <typename Primitive>
memory append_output(Program& program, Trained& of, const memory& source,
                     const typename Primitive::primitive_desc& desc) {
  const Layer& layer = of.layer;
  memory output = program.make(desc.dst_desc());
  of.source = source;
  of.read = program.in_format(Pass::kForward, source, desc.src_desc());
  of.weights =
      program.in_format(Pass::kForward, program.parameter(layer.weight, of.weight), desc.weights_desc());
  Arguments arguments{{DNNL_ARG_SRC, of.read}, {DNNL_ARG_WEIGHTS, of.weights}, {DNNL_ARG_DST, output}};
  if (layer.bias.size > 0) {
    arguments.emplace(DNNL_ARG_BIAS, program.parameter(layer.bias, bias_dims(layer)));
  }
  program.append<Primitive>(Pass::kForward, desc, std::move(arguments));
  return output;
}

// Where a primitive puts the gradient of a parameter: into the caller's vector, where its format is row-major and no
// other layer with the same parameter has been there; else into memory of its own, which is then brought there.
class ParameterGradient {
 public:
  ParameterGradient(Program& program, const ParameterRange& range, const Dims& dims,
                    const memory::desc& format)
      : program_(program),
        gradient_(program.gradient(range, dims)),
        adds_(program.adds_to_gradient(range)),
        computed_(!adds_ && gradient_.get_desc() == format ? gradient_ : program.make(format)) {}

  const memory& computed() const { return computed_; }
  // After the primitive.
  void append_rest() {
    if (adds_) return program_.append_sum(Pass::kBackward, gradient_, computed_);
    if (computed_ != gradient_) program_.append_reorder(Pass::kBackward, computed_, gradient_);
  }

 private:
  Program& program_;
  const memory gradient_;
  const bool adds_;
  const memory computed_;
};

// d(loss)/d(weight) and d(loss)/d(bias), final from here on unless it is another layer's, too.
template <typename Primitive>
void append_parameter_gradient(Program& program, const Trained& of, const memory& difference,
                               const typename Primitive::primitive_desc& desc) {
  const bool as_read = of.read.get_desc() == desc.src_desc();
  const memory source = program.in_format(Pass::kBackward, as_read ? of.read : of.source, desc.src_desc());
  const memory read = program.in_format(Pass::kBackward, difference, desc.diff_dst_desc());
  ParameterGradient weight(program, of.layer.weight, of.weight, desc.diff_weights_desc());
  std::optional<ParameterGradient> bias;
  Arguments arguments{
      {DNNL_ARG_SRC, source}, {DNNL_ARG_DIFF_DST, read}, {DNNL_ARG_DIFF_WEIGHTS, weight.computed()}};
  if (of.layer.bias.size > 0) {
    bias.emplace(program, of.layer.bias, bias_dims(of.layer), plain(bias_dims(of.layer)));
    arguments.emplace(DNNL_ARG_DIFF_BIAS, bias->computed());
  }
  program.append<Primitive>(Pass::kBackward, desc, std::move(arguments));
  weight.append_rest();
  if (bias) bias->append_rest();
  if (!of.layer.shares_weights) program.mark_final(of.layer.weight.offset);  // the bias lies behind
}

// d(loss)/d(source).
template <typename Primitive>
memory append_source_difference(Program& program, const Trained& of, const memory& difference,
                                const typename Primitive::primitive_desc& desc) {
  const memory weights = weights_for(program, of, desc.weights_desc());
  const memory read = program.in_format(Pass::kBackward, difference, desc.diff_dst_desc());
  memory result = program.make(desc.diff_src_desc());
  program.append<Primitive>(
      Pass::kBackward, desc,
      {{DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DIFF_DST, read}, {DNNL_ARG_DIFF_SRC, result}});
  return result;
}

}  // namespace paceline::onednn
