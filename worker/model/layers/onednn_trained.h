// What the layers with a weight and a bias have in common: a ReLU done behind them, and the two halves of
// their backward pass.
#pragma once

#include "worker/model/layers/onednn_layer.h"

namespace paceline::onednn {

inline dnnl::primitive_attr attributes_with(bool relu) {
  dnnl::primitive_attr attr = Program::attributes();
  if (relu) {
    dnnl::post_ops post_ops;
    post_ops.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
    attr.set_post_ops(post_ops);
  }
  return attr;
}

// What a trained layer's forward pass leaves for its backward pass.
struct Trained {
  const Layer& layer;
  Dims weight{};
  memory source{};
  memory read{};  // the source in the format that the forward primitive reads
};

inline Dims bias_dims(const Layer& layer) { return {layer.out.channels}; }
// For a description; an empty one where there is no bias.
inline memory::desc bias_desc(const Layer& layer) {
  return layer.bias.size > 0 ? plain(bias_dims(layer)) : memory::desc();
}

// d(loss)/d(weight) and d(loss)/d(bias), final from here on.
template <typename Primitive>
void append_parameter_gradient(Program& program, const Trained& of, const memory& difference,
                               const typename Primitive::primitive_desc& desc) {
  const bool as_read = of.read.get_desc() == desc.src_desc();
  const memory source = program.in_format(Pass::kBackward, as_read ? of.read : of.source, desc.src_desc());
  const memory read = program.in_format(Pass::kBackward, difference, desc.diff_dst_desc());
  const memory gradient = program.gradient(of.layer.weight, of.weight);
  const bool is_plain = gradient.get_desc() == desc.diff_weights_desc();
  const memory computed = is_plain ? gradient : program.make(desc.diff_weights_desc());
  Arguments arguments{{DNNL_ARG_SRC, source}, {DNNL_ARG_DIFF_DST, read}, {DNNL_ARG_DIFF_WEIGHTS, computed}};
  if (of.layer.bias.size > 0) {
    arguments.emplace(DNNL_ARG_DIFF_BIAS, program.gradient(of.layer.bias, bias_dims(of.layer)));
  }
  program.append<Primitive>(Pass::kBackward, desc, std::move(arguments));
  if (!is_plain) program.append_reorder(Pass::kBackward, computed, gradient);
  program.mark_final(of.layer.weight.offset);  // the bias lies behind
}

// d(loss)/d(source).
template <typename Primitive>
memory append_source_difference(Program& program, const Trained& of, const memory& difference,
                                const typename Primitive::primitive_desc& desc) {
  const memory weights =
      program.in_format(Pass::kBackward, program.parameter(of.layer.weight, of.weight), desc.weights_desc());
  const memory read = program.in_format(Pass::kBackward, difference, desc.diff_dst_desc());
  memory result = program.make(desc.diff_src_desc());
  program.append<Primitive>(
      Pass::kBackward, desc,
      {{DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DIFF_DST, read}, {DNNL_ARG_DIFF_SRC, result}});
  return result;
}

}  // namespace paceline::onednn
