#include "worker/model/onednn_layers.h"

#include <algorithm>
#include <utility>

namespace paceline::onednn {
namespace {

using dnnl::algorithm;
using dnnl::prop_kind;

Dims strides_of(const Layer& layer) { return {layer.stride, layer.stride}; }
Dims kernel_of(const Layer& layer) { return {layer.kernel, layer.kernel}; }
Dims padding_of(const Layer& layer) { return {layer.padding, layer.padding}; }
Dims bias_dims(const Layer& layer) { return {layer.out.channels}; }

Dims weight_dims(const Layer& layer, const Step& step) {
  if (layer.kind == LayerKind::kConv) {
    return {layer.out.channels, layer.in.channels, layer.kernel, layer.kernel};
  }
  // A dense layer reads an image as it lies: out, channels, height, width. No flatten.
  Dims dims = step.source.get_desc().dims();
  dims[0] = layer.out.channels;
  return dims;
}

bool has_parameters(LayerKind kind) { return kind == LayerKind::kConv || kind == LayerKind::kDense; }

dnnl::primitive_attr attributes_with(bool relu) {
  dnnl::primitive_attr attr = Program::attributes();
  if (relu) {
    dnnl::post_ops post_ops;
    post_ops.append_eltwise(1.0F, algorithm::eltwise_relu, 0.0F, 0.0F);
    attr.set_post_ops(post_ops);
  }
  return attr;
}

}  // namespace

LayerProgram::LayerProgram(const NetworkSpec& network, std::int64_t batch_size)
    : network_(network),
      batch_size_(batch_size),
      images_(program_.make_unbound(plain(dims_of(network.input)))) {
  build_forward();
  build_backward();
  program_.finish();
}

// The layers as they are executed: flatten is nothing, and a ReLU changes places with a pool behind it.
std::vector<std::size_t> LayerProgram::execution_order() const {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < network_.layers.size(); ++i) {
    const LayerKind kind = network_.layers[i].kind;
    if (kind == LayerKind::kFlatten) continue;
    const bool behind_relu = !order.empty() && network_.layers[order.back()].kind == LayerKind::kRelu;
    order.insert(order.end() - (kind == LayerKind::kPool && behind_relu ? 1 : 0), i);
  }
  return order;
}

// --- forward
// -----------------------------------------------------------------------------------------------------

void LayerProgram::build_forward() {
  const std::vector<std::size_t> order = execution_order();
  memory current = images_;
  const LayerKind first = network_.layers[order.front()].kind;
  if (first == LayerKind::kRelu || first == LayerKind::kDropout) {
    // These work in place, and the images are not ours.
    current = program_.make(images_.get_desc());
    program_.append_reorder(Pass::kForward, images_, current);
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Layer& layer = network_.layers[order[i]];
    Step step;
    step.layer_index = order[i];
    step.kind = layer.kind;
    step.source = current;
    step.fused_relu = has_parameters(layer.kind) && i + 1 < order.size() &&
                      network_.layers[order[i + 1]].kind == LayerKind::kRelu;
    // A convolution's backward pass reads its source, not its output; a ReLU's reads its output.
    step.source_is_free =
        !steps_.empty() && steps_.back().kind == LayerKind::kConv && !steps_.back().fused_relu;
    if (layer.kind == LayerKind::kConv) conv_forward(layer, step);
    if (layer.kind == LayerKind::kDense) dense_forward(layer, step);
    if (layer.kind == LayerKind::kPool) pool_forward(layer, step);
    if (layer.kind == LayerKind::kRelu) relu_forward(step);
    if (layer.kind == LayerKind::kDropout) dropout_forward(step);
    current = step.output;
    if (step.fused_relu) ++i;
    steps_.push_back(std::move(step));
  }
  logits_ = current;
}

void LayerProgram::conv_forward(const Layer& layer, Step& step) {
  const Dims weight = weight_dims(layer, step);
  step.conv.emplace(dnnl::convolution_forward::desc(
                        prop_kind::forward_training, algorithm::convolution_direct, any(dims_of(layer.in)),
                        any(weight), plain(bias_dims(layer)), any(dims_of(layer.out)), strides_of(layer),
                        padding_of(layer), padding_of(layer)),
                    attributes_with(step.fused_relu), program_.engine());
  step.output = program_.make(step.conv->dst_desc());
  step.read = program_.in_format(Pass::kForward, step.source, step.conv->src_desc());
  const memory weights =
      program_.in_format(Pass::kForward, program_.parameter(layer.weight, weight), step.conv->weights_desc());
  program_.append<dnnl::convolution_forward>(
      Pass::kForward, *step.conv,
      {{DNNL_ARG_SRC, step.read},
       {DNNL_ARG_WEIGHTS, weights},
       {DNNL_ARG_BIAS, program_.parameter(layer.bias, bias_dims(layer))},
       {DNNL_ARG_DST, step.output}});
}

// Weights stay row-major here: bringing megabytes of them into another format and back cost more than it
// gained.
void LayerProgram::dense_forward(const Layer& layer, Step& step) {
  const Dims weight = weight_dims(layer, step);
  step.dense.emplace(dnnl::inner_product_forward::desc(
                         prop_kind::forward_training, any(step.source.get_desc().dims()), plain(weight),
                         plain(bias_dims(layer)), plain({batch_size_, layer.out.channels})),
                     attributes_with(step.fused_relu), program_.engine());
  step.output = program_.make(step.dense->dst_desc());
  step.read = program_.in_format(Pass::kForward, step.source, step.dense->src_desc());
  program_.append<dnnl::inner_product_forward>(
      Pass::kForward, *step.dense,
      {{DNNL_ARG_SRC, step.read},
       {DNNL_ARG_WEIGHTS, program_.parameter(layer.weight, weight)},
       {DNNL_ARG_BIAS, program_.parameter(layer.bias, bias_dims(layer))},
       {DNNL_ARG_DST, step.output}});
}

void LayerProgram::pool_forward(const Layer& layer, Step& step) {
  step.pool.emplace(
      dnnl::pooling_forward::desc(prop_kind::forward_training, algorithm::pooling_max, step.source.get_desc(),
                                  any(dims_of(layer.out)), strides_of(layer), kernel_of(layer),
                                  padding_of(layer), padding_of(layer)),
      Program::attributes(), program_.engine());
  step.output = program_.make(step.pool->dst_desc());
  step.extra = program_.make(step.pool->workspace_desc());
  program_.append<dnnl::pooling_forward>(
      Pass::kForward, *step.pool,
      {{DNNL_ARG_SRC, step.source}, {DNNL_ARG_DST, step.output}, {DNNL_ARG_WORKSPACE, *step.extra}});
}

// The backward pass goes by the output. A dropout behind it changes the output in place: that only scales
// what is positive, or zeroes it where the difference is zero, too.
dnnl::eltwise_forward::primitive_desc LayerProgram::relu_desc(const memory::desc& desc) const {
  return {{prop_kind::forward_training, algorithm::eltwise_relu_use_dst_for_bwd, desc, 0.0F, 0.0F},
          Program::attributes(),
          program_.engine()};
}

void LayerProgram::relu_forward(Step& step) {
  step.output = step.source;
  program_.append<dnnl::eltwise_forward>(Pass::kForward, relu_desc(step.output.get_desc()),
                                         {{DNNL_ARG_SRC, step.source}, {DNNL_ARG_DST, step.output}});
}

void LayerProgram::dropout_forward(Step& step) {
  step.output = step.source;
  // Drawn in the layer's own order, then brought into the format of the activations.
  const memory::desc drawn = plain(step.output.get_desc().dims());
  masks_.push_back({step.layer_index, program_.make(drawn)});
  // A smaller mini-batch leaves the tail as it is.
  std::fill_n(floats_of(masks_.back().drawn), drawn.get_size() / sizeof(float), 0.0F);
  step.extra = masks_.back().drawn;
  if (step.output.get_desc() != drawn) {
    step.extra = program_.make(step.output.get_desc());
    program_.append_reorder(Pass::kForward, masks_.back().drawn, *step.extra, When::kTraining);
  }
  multiply(Pass::kForward, step.output, *step.extra);
}

// target *= factor, element by element, in training.
void LayerProgram::multiply(Pass pass, const memory& target, const memory& factor) {
  const dnnl::binary::primitive_desc desc(
      {algorithm::binary_mul, target.get_desc(), factor.get_desc(), target.get_desc()}, Program::attributes(),
      program_.engine());
  program_.append<dnnl::binary>(pass, desc,
                                {{DNNL_ARG_SRC_0, target}, {DNNL_ARG_SRC_1, factor}, {DNNL_ARG_DST, target}},
                                When::kTraining);
}

// --- backward
// ----------------------------------------------------------------------------------------------------

void LayerProgram::build_backward() {
  logit_difference_ = program_.make(logits_.get_desc());
  memory difference = logit_difference_;
  // In front of the first layer with parameters nobody needs a difference.
  const auto first =
      std::find_if(steps_.begin(), steps_.end(), [](const Step& step) { return has_parameters(step.kind); });
  for (auto step = steps_.end(); step-- != first;) {
    const Layer& layer = network_.layers[step->layer_index];
    const auto wanted = step == first ? SourceDifference::kUnused : SourceDifference::kWanted;
    if (step->fused_relu || step->kind == LayerKind::kRelu) difference = relu_backward(*step, difference);
    if (step->kind == LayerKind::kDropout) {
      difference = program_.in_format(Pass::kBackward, difference, step->output.get_desc());
      multiply(Pass::kBackward, difference, *step->extra);
    }
    if (step->kind == LayerKind::kPool) difference = pool_backward(layer, *step, difference);
    if (step->kind == LayerKind::kConv) difference = conv_backward(layer, *step, difference, wanted);
    if (step->kind == LayerKind::kDense) difference = dense_backward(layer, *step, difference, wanted);
  }
}

memory LayerProgram::relu_backward(const Step& step, const memory& difference) {
  // Element by element, a difference must lie as the activations do.
  const memory::desc desc = step.output.get_desc();
  memory result = program_.in_format(Pass::kBackward, difference, desc);
  const dnnl::eltwise_backward::primitive_desc backward(
      {algorithm::eltwise_relu_use_dst_for_bwd, desc, desc, 0.0F, 0.0F}, Program::attributes(),
      program_.engine(), relu_desc(desc));
  program_.append<dnnl::eltwise_backward>(
      Pass::kBackward, backward,
      {{DNNL_ARG_DST, step.output}, {DNNL_ARG_DIFF_DST, result}, {DNNL_ARG_DIFF_SRC, result}});
  return result;
}

memory LayerProgram::pool_backward(const Layer& layer, const Step& step, const memory& difference) {
  const memory read = program_.in_format(Pass::kBackward, difference, step.output.get_desc());
  memory result = step.source_is_free ? step.source : program_.make(step.source.get_desc());
  const dnnl::pooling_backward::primitive_desc backward(
      {algorithm::pooling_max, result.get_desc(), read.get_desc(), strides_of(layer), kernel_of(layer),
       padding_of(layer), padding_of(layer)},
      Program::attributes(), program_.engine(), *step.pool);
  program_.append<dnnl::pooling_backward>(
      Pass::kBackward, backward,
      {{DNNL_ARG_DIFF_DST, read}, {DNNL_ARG_WORKSPACE, *step.extra}, {DNNL_ARG_DIFF_SRC, result}});
  return result;
}

memory LayerProgram::conv_backward(const Layer& layer, const Step& step, const memory& difference,
                                   SourceDifference wanted) {
  const Dims weight = weight_dims(layer, step);
  const dnnl::convolution_backward_weights::primitive_desc parameters(
      {algorithm::convolution_direct, any(dims_of(layer.in)), any(weight), plain(bias_dims(layer)),
       any(dims_of(layer.out)), strides_of(layer), padding_of(layer), padding_of(layer)},
      Program::attributes(), program_.engine(), *step.conv);
  append_parameter_gradient<dnnl::convolution_backward_weights>(layer, step, difference, parameters);
  if (wanted == SourceDifference::kUnused) return {};
  const dnnl::convolution_backward_data::primitive_desc source(
      {algorithm::convolution_direct, any(dims_of(layer.in)), any(weight), any(dims_of(layer.out)),
       strides_of(layer), padding_of(layer), padding_of(layer)},
      Program::attributes(), program_.engine(), *step.conv);
  return append_source_difference<dnnl::convolution_backward_data>(layer, step, difference, source);
}

memory LayerProgram::dense_backward(const Layer& layer, const Step& step, const memory& difference,
                                    SourceDifference wanted) {
  const Dims weight = weight_dims(layer, step);
  const Dims in = step.source.get_desc().dims();
  const Dims out = {batch_size_, layer.out.channels};
  const dnnl::inner_product_backward_weights::primitive_desc parameters(
      {any(in), plain(weight), plain(bias_dims(layer)), any(out)}, Program::attributes(), program_.engine(),
      *step.dense);
  append_parameter_gradient<dnnl::inner_product_backward_weights>(layer, step, difference, parameters);
  if (wanted == SourceDifference::kUnused) return {};
  const dnnl::inner_product_backward_data::primitive_desc source(
      {any(in), plain(weight), any(out)}, Program::attributes(), program_.engine(), *step.dense);
  return append_source_difference<dnnl::inner_product_backward_data>(layer, step, difference, source);
}

template <typename Primitive>
void LayerProgram::append_parameter_gradient(const Layer& layer, const Step& step, const memory& difference,
                                             const typename Primitive::primitive_desc& desc) {
  const memory::desc as_read = step.read.get_desc();
  const memory source = program_.in_format(
      Pass::kBackward, as_read == desc.src_desc() ? step.read : step.source, desc.src_desc());
  const memory read = program_.in_format(Pass::kBackward, difference, desc.diff_dst_desc());
  const memory gradient = program_.gradient(layer.weight, weight_dims(layer, step));
  const bool is_plain = gradient.get_desc() == desc.diff_weights_desc();
  const memory computed = is_plain ? gradient : program_.make(desc.diff_weights_desc());
  program_.append<Primitive>(Pass::kBackward, desc,
                             {{DNNL_ARG_SRC, source},
                              {DNNL_ARG_DIFF_DST, read},
                              {DNNL_ARG_DIFF_WEIGHTS, computed},
                              {DNNL_ARG_DIFF_BIAS, program_.gradient(layer.bias, bias_dims(layer))}});
  if (!is_plain) program_.append_reorder(Pass::kBackward, computed, gradient);
  program_.mark_final(layer.weight.offset);  // the bias lies behind
}

template <typename Primitive>
memory LayerProgram::append_source_difference(const Layer& layer, const Step& step, const memory& difference,
                                              const typename Primitive::primitive_desc& desc) {
  const memory weights = program_.in_format(
      Pass::kBackward, program_.parameter(layer.weight, weight_dims(layer, step)), desc.weights_desc());
  const memory read = program_.in_format(Pass::kBackward, difference, desc.diff_dst_desc());
  memory result = program_.make(desc.diff_src_desc());
  program_.append<Primitive>(
      Pass::kBackward, desc,
      {{DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DIFF_DST, read}, {DNNL_ARG_DIFF_SRC, result}});
  return result;
}

}  // namespace paceline::onednn
