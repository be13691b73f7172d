// The network as a list of oneDNN primitives, built once and then only executed.
//
// Parameters and gradient stay the caller's flat vectors: a plain-format memory points into them, and a
// reorder stands in front of (or behind) a primitive that prefers another format. Three things make a step
// cheaper than the layers as written, and change no result:
//   a ReLU in front of a max-pool is applied behind it (they commute), on a quarter of the elements;
//   a ReLU behind a convolution or a dense layer is done by that primitive; every other one works in place;
//   a pool's backward pass writes over the activations it pooled, where nothing needs them any more.
// A mini-batch smaller than the built size is filled up with zero images whose loss gradient is zero.
#include "worker/model/onednn.h"

#include <omp.h>

#include <algorithm>
#include <dnnl.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/assert.h"
#include "worker/model/dropout.h"
#include "worker/model/loss.h"

namespace paceline {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;
using Tag = dnnl::memory::format_tag;
using Dims = dnnl::memory::dims;
using Arguments = std::unordered_map<int, memory>;

constexpr auto kFloat = memory::data_type::f32;

memory::desc any(const Dims& dims) { return {dims, kFloat, Tag::any}; }

// The row-major format of a tensor of this rank.
memory::desc plain(const Dims& dims) {
  constexpr Tag kTags[] = {Tag::undef, Tag::a, Tag::ab, Tag::abc, Tag::abcd};
  return {dims, kFloat, kTags[dims.size()]};
}

// A primitive with the memory it works on; kTraining ones (dropout) are left out of an evaluation.
enum class When { kAlways, kTraining };
struct Call {
  dnnl::primitive primitive;
  Arguments arguments;
  When when;
};

// A memory that points into the flat parameter or gradient vector, `offset` floats from its start.
struct Window {
  memory target;
  std::int64_t offset;
};

// A mask drawn before the forward pass. `drawn` is row-major.
struct Mask {
  std::size_t layer_index;
  memory drawn;
};

// What the backward pass must know about one layer of the forward pass.
struct Step {
  std::size_t layer_index = 0;
  LayerKind kind = LayerKind::kRelu;
  memory source;
  memory read;  // the source in the format that the forward primitive reads
  memory output;
  bool fused_relu = false;
  bool source_is_free = false;  // the backward pass needs the source's values no more: it may be written over
  std::optional<memory> extra;  // pool: where the maxima were; dropout: the mask in the output's format
  std::optional<dnnl::convolution_forward::primitive_desc> conv;
  std::optional<dnnl::inner_product_forward::primitive_desc> dense;
  std::optional<dnnl::pooling_forward::primitive_desc> pool;
};

class OnednnBackend : public NetworkBackend {
 public:
  OnednnBackend(NetworkSpec network, std::int64_t batch_size, std::uint64_t seed)
      : network_(std::move(network)),
        batch_size_(batch_size),
        seed_(seed),
        engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_),
        images_(plain(dims_of(network_.input)), engine_, nullptr),
        filled_images_(batch_size * network_.input.size()) {
    build_forward();
    build_backward();
    bind_scratchpads();
  }

  Result<Metric> gradient(std::span<const float> parameters, const Batch& batch,
                          std::span<float> gradient) override {
    PACELINE_RETURN_IF_ERROR(check_batch(network_, batch, batch_size_,
                                         masks_.empty() ? DropoutKeys::kIgnored : DropoutKeys::kRequired));
    PACELINE_ASSERT(static_cast<std::int64_t>(gradient.size()) == network_.layout.size(),
                    std::to_string(gradient.size()));
    return guarded([&] {
      for (const Mask& mask : masks_) {
        const std::int64_t floats = batch.size() * network_.layers[mask.layer_index].out.size();
        fill_dropout_mask(
            network_, mask.layer_index, seed_, batch,
            {static_cast<float*>(mask.drawn.get_data_handle()), static_cast<std::size_t>(floats)});
      }
      run_forward(parameters, batch, When::kTraining);
      float* difference = static_cast<float*>(logit_difference_.get_data_handle());
      const std::size_t used = batch.size() * network_.classes;
      const Metric metric =
          softmax_cross_entropy<float>(logits(batch), batch.labels, network_.classes, {difference, used});
      std::fill(difference + used, difference + batch_size_ * network_.classes, 0.0F);
      for (Window& window : gradients_) window.target.set_data_handle(gradient.data() + window.offset);
      execute(backward_, When::kTraining);
      return metric;
    });
  }

  Result<Metric> evaluate(std::span<const float> parameters, const Batch& batch) override {
    PACELINE_RETURN_IF_ERROR(check_batch(network_, batch, batch_size_, DropoutKeys::kIgnored));
    return guarded([&] {
      run_forward(parameters, batch, When::kAlways);
      return softmax_cross_entropy<float>(logits(batch), batch.labels, network_.classes, {});
    });
  }

 private:
  template <typename Work>
  static Result<Metric> guarded(Work work) {
    try {
      return work();
    } catch (const dnnl::error& e) {
      return internal_error(std::string("oneDNN: ") + e.what());
    }
  }

  // --- running
  // -----------------------------------------------------------------------------------------------------

  void run_forward(std::span<const float> parameters, const Batch& batch, When when) {
    PACELINE_ASSERT(static_cast<std::int64_t>(parameters.size()) == network_.layout.size(),
                    std::to_string(parameters.size()));
    // The library takes its inputs as void*, and only reads these.
    float* values = const_cast<float*>(parameters.data());
    for (Window& window : parameters_) window.target.set_data_handle(values + window.offset);
    if (batch.size() == batch_size_) {
      images_.set_data_handle(const_cast<float*>(batch.images.data()));
    } else {
      std::fill(std::copy(batch.images.begin(), batch.images.end(), filled_images_.begin()),
                filled_images_.end(), 0.0F);
      images_.set_data_handle(filled_images_.data());
    }
    execute(forward_, when);
  }

  void execute(const std::vector<Call>& calls, When when) {
    for (const Call& call : calls) {
      if (call.when == When::kAlways || when == When::kTraining)
        call.primitive.execute(stream_, call.arguments);
    }
    stream_.wait();
  }

  std::span<const float> logits(const Batch& batch) const {
    return {static_cast<const float*>(logits_.get_data_handle()),
            static_cast<std::size_t>(batch.size() * network_.classes)};
  }

  // --- building
  // ----------------------------------------------------------------------------------------------------

  memory make(const memory::desc& desc) const { return memory(desc, engine_); }

  // Every primitive computes in the one shared arena. A fresh attribute each time: they are copied shallowly.
  static dnnl::primitive_attr attributes() {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return attr;
  }

  template <typename Primitive>
  void append(std::vector<Call>& calls, const typename Primitive::primitive_desc& desc, Arguments arguments,
              When when = When::kAlways) {
    const memory::desc scratchpad = desc.scratchpad_desc();
    if (scratchpad.get_size() > 0) {
      memory target(scratchpad, engine_, nullptr);
      arena_bytes_ = std::max(arena_bytes_, scratchpad.get_size());
      scratchpads_.push_back(target);
      arguments.emplace(DNNL_ARG_SCRATCHPAD, target);
    }
    calls.push_back({Primitive(desc), std::move(arguments), when});
  }

  void append_reorder(std::vector<Call>& calls, const memory& from, const memory& to,
                      When when = When::kAlways) {
    append<dnnl::reorder>(calls, dnnl::reorder::primitive_desc(from, to, attributes()),
                          {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}, when);
  }

  // `value` in format `wanted`: itself, or a copy that a reorder fills.
  memory in_format(std::vector<Call>& calls, const memory& value, const memory::desc& wanted) {
    if (value.get_desc() == wanted) return value;
    memory copy = make(wanted);
    append_reorder(calls, value, copy);
    return copy;
  }

  memory window(std::vector<Window>& windows, const ParameterRange& range, const Dims& dims) {
    memory target(plain(dims), engine_, nullptr);
    windows.push_back({target, range.offset});
    return target;
  }
  memory parameter(const ParameterRange& range, const Dims& dims) { return window(parameters_, range, dims); }

  // Gradient tensor in format `computed`, followed by `after`, the reorder into the flat vector where it is
  // needed.
  memory gradient_in(const ParameterRange& range, const Dims& dims, const memory::desc& computed,
                     std::optional<std::pair<memory, memory>>& after) {
    memory target = window(gradients_, range, dims);
    if (computed == target.get_desc()) return target;
    memory copy = make(computed);
    after.emplace(copy, target);
    return copy;
  }

  Dims dims_of(const Shape& shape) const { return {batch_size_, shape.channels, shape.height, shape.width}; }

  static Dims weight_dims(const Layer& layer, const memory& source) {
    if (layer.kind == LayerKind::kConv) {
      return {layer.out.channels, layer.in.channels, layer.kernel, layer.kernel};
    }
    // A dense layer reads an image as it lies; no flatten.
    Dims dims = source.get_desc().dims();
    dims[0] = layer.out.channels;
    return dims;
  }

  // The layers in the order they are executed: flatten is nothing, and a ReLU changes places with a pool
  // behind it.
  std::vector<std::size_t> execution_order() const {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < network_.layers.size(); ++i) {
      const LayerKind kind = network_.layers[i].kind;
      if (kind == LayerKind::kFlatten) continue;
      const bool behind_relu = !order.empty() && network_.layers[order.back()].kind == LayerKind::kRelu;
      order.insert(order.end() - (kind == LayerKind::kPool && behind_relu ? 1 : 0), i);
    }
    return order;
  }

  void build_forward() {
    const std::vector<std::size_t> order = execution_order();
    memory current = images_;
    const LayerKind first = network_.layers[order.front()].kind;
    if (first == LayerKind::kRelu ||
        first == LayerKind::kDropout) {  // these work in place, and the images are not ours
      current = make(images_.get_desc());
      append_reorder(forward_, images_, current);
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Layer& layer = network_.layers[order[i]];
      Step step;
      step.layer_index = order[i];
      step.kind = layer.kind;
      step.source = current;
      const bool computes = layer.kind == LayerKind::kConv || layer.kind == LayerKind::kDense;
      step.fused_relu =
          computes && i + 1 < order.size() && network_.layers[order[i + 1]].kind == LayerKind::kRelu;
      // A convolution's backward pass reads its source only; so its output is free once it has been pooled.
      step.source_is_free =
          !steps_.empty() && steps_.back().kind == LayerKind::kConv && !steps_.back().fused_relu;
      switch (layer.kind) {
        case LayerKind::kConv:
          conv_forward(layer, step);
          break;
        case LayerKind::kDense:
          dense_forward(layer, step);
          break;
        case LayerKind::kPool:
          pool_forward(layer, step);
          break;
        case LayerKind::kRelu:
          relu_forward(step);
          break;
        case LayerKind::kDropout:
          dropout_forward(layer, step);
          break;
        case LayerKind::kFlatten:
          break;
      }
      current = step.output;
      if (step.fused_relu) ++i;
      steps_.push_back(std::move(step));
    }
    logits_ = current;
  }

  static dnnl::primitive_attr attributes_with_relu(bool fused) {
    dnnl::primitive_attr attr = attributes();
    if (fused) {
      dnnl::post_ops relu;
      relu.append_eltwise(1.0F, algorithm::eltwise_relu, 0.0F, 0.0F);
      attr.set_post_ops(relu);
    }
    return attr;
  }

  void conv_forward(const Layer& layer, Step& step) {
    const Dims weight = weight_dims(layer, step.source);
    const Dims bias = {layer.out.channels};
    const Dims strides = {layer.stride, layer.stride};
    const Dims padding = {layer.padding, layer.padding};
    step.conv.emplace(dnnl::convolution_forward::desc(
                          prop_kind::forward_training, algorithm::convolution_direct, any(dims_of(layer.in)),
                          any(weight), plain(bias), any(dims_of(layer.out)), strides, padding, padding),
                      attributes_with_relu(step.fused_relu), engine_);
    step.output = make(step.conv->dst_desc());
    step.read = in_format(forward_, step.source, step.conv->src_desc());
    const memory weights = in_format(forward_, parameter(layer.weight, weight), step.conv->weights_desc());
    append<dnnl::convolution_forward>(forward_, *step.conv,
                                      {{DNNL_ARG_SRC, step.read},
                                       {DNNL_ARG_WEIGHTS, weights},
                                       {DNNL_ARG_BIAS, parameter(layer.bias, bias)},
                                       {DNNL_ARG_DST, step.output}});
  }

  void dense_forward(const Layer& layer, Step& step) {
    const Dims weight = weight_dims(layer, step.source);
    const Dims bias = {layer.out.channels};
    step.dense.emplace(dnnl::inner_product_forward::desc(
                           prop_kind::forward_training, any(step.source.get_desc().dims()), plain(weight),
                           plain(bias), plain({batch_size_, layer.out.channels})),
                       attributes_with_relu(step.fused_relu), engine_);
    step.output = make(step.dense->dst_desc());
    step.read = in_format(forward_, step.source, step.dense->src_desc());
    append<dnnl::inner_product_forward>(forward_, *step.dense,
                                        {{DNNL_ARG_SRC, step.read},
                                         {DNNL_ARG_WEIGHTS, parameter(layer.weight, weight)},
                                         {DNNL_ARG_BIAS, parameter(layer.bias, bias)},
                                         {DNNL_ARG_DST, step.output}});
  }

  void pool_forward(const Layer& layer, Step& step) {
    step.pool.emplace(dnnl::pooling_forward::desc(
                          prop_kind::forward_training, algorithm::pooling_max, step.source.get_desc(),
                          any(dims_of(layer.out)), {layer.stride, layer.stride}, {layer.kernel, layer.kernel},
                          {layer.padding, layer.padding}, {layer.padding, layer.padding}),
                      attributes(), engine_);
    step.output = make(step.pool->dst_desc());
    step.extra = make(step.pool->workspace_desc());
    append<dnnl::pooling_forward>(
        forward_, *step.pool,
        {{DNNL_ARG_SRC, step.source}, {DNNL_ARG_DST, step.output}, {DNNL_ARG_WORKSPACE, *step.extra}});
  }

  dnnl::eltwise_forward::primitive_desc relu_desc(const memory::desc& desc) const {
    return {{prop_kind::forward_training, algorithm::eltwise_relu_use_dst_for_bwd, desc, 0.0F, 0.0F},
            attributes(),
            engine_};
  }

  void relu_forward(Step& step) {
    step.output = step.source;
    append<dnnl::eltwise_forward>(forward_, relu_desc(step.output.get_desc()),
                                  {{DNNL_ARG_SRC, step.source}, {DNNL_ARG_DST, step.output}});
  }

  void dropout_forward(const Layer& layer, Step& step) {
    step.output = step.source;
    // Drawn in the layer's own order, C x H x W, then brought into the format of the activations.
    const Dims dims = step.output.get_desc().dims();
    masks_.push_back({step.layer_index, make(plain(dims))});
    PACELINE_ASSERT(layer.out.size() * batch_size_ * 4 == static_cast<std::int64_t>(plain(dims).get_size()),
                    to_string(layer.out));
    zero(masks_.back().drawn);  // a smaller mini-batch leaves the tail as it is
    step.extra = masks_.back().drawn;
    if (step.output.get_desc() != plain(dims)) {
      step.extra = make(step.output.get_desc());
      append_reorder(forward_, masks_.back().drawn, *step.extra, When::kTraining);
    }
    multiply(forward_, step.output, *step.extra);
  }

  static void zero(const memory& target) {
    std::fill_n(static_cast<char*>(target.get_data_handle()), target.get_desc().get_size(), '\0');
  }

  // target *= factor, element by element.
  void multiply(std::vector<Call>& calls, const memory& target, const memory& factor) {
    const dnnl::binary::primitive_desc desc(
        {algorithm::binary_mul, target.get_desc(), factor.get_desc(), target.get_desc()}, attributes(),
        engine_);
    append<dnnl::binary>(calls, desc,
                         {{DNNL_ARG_SRC_0, target}, {DNNL_ARG_SRC_1, factor}, {DNNL_ARG_DST, target}},
                         When::kTraining);
  }

  void build_backward() {
    logit_difference_ = make(logits_.get_desc());
    memory difference = logit_difference_;
    // In front of the first layer with parameters nobody needs a difference.
    const auto first =
        std::find_if(steps_.begin(), steps_.end(), [](const Step& s) { return s.conv || s.dense; });
    for (auto step = steps_.end(); step-- != first;) {
      const Layer& layer = network_.layers[step->layer_index];
      // Element by element, a difference must lie as the activations do.
      if (step->fused_relu || step->kind == LayerKind::kRelu) relu_backward(*step, difference);
      if (step->kind == LayerKind::kDropout) {
        difference = in_format(backward_, difference, step->output.get_desc());
        multiply(backward_, difference, *step->extra);
      }
      if (step->pool) difference = pool_backward(layer, *step, difference);
      if (step->conv) difference = conv_backward(layer, *step, difference, step != first);
      if (step->dense) difference = dense_backward(layer, *step, difference, step != first);
    }
  }

  void relu_backward(const Step& step, memory& difference) {
    const memory::desc desc = step.output.get_desc();
    difference = in_format(backward_, difference, desc);
    const dnnl::eltwise_backward::primitive_desc backward(
        {algorithm::eltwise_relu_use_dst_for_bwd, desc, desc, 0.0F, 0.0F}, attributes(), engine_,
        relu_desc(desc));
    append<dnnl::eltwise_backward>(
        backward_, backward,
        {{DNNL_ARG_DST, step.output}, {DNNL_ARG_DIFF_DST, difference}, {DNNL_ARG_DIFF_SRC, difference}});
  }

  memory pool_backward(const Layer& layer, const Step& step, const memory& difference) {
    const memory out_difference = in_format(backward_, difference, step.output.get_desc());
    const memory in_difference = step.source_is_free ? step.source : make(step.source.get_desc());
    const dnnl::pooling_backward::primitive_desc backward({algorithm::pooling_max,
                                                           in_difference.get_desc(),
                                                           out_difference.get_desc(),
                                                           {layer.stride, layer.stride},
                                                           {layer.kernel, layer.kernel},
                                                           {layer.padding, layer.padding},
                                                           {layer.padding, layer.padding}},
                                                          attributes(), engine_, *step.pool);
    append<dnnl::pooling_backward>(backward_, backward,
                                   {{DNNL_ARG_DIFF_DST, out_difference},
                                    {DNNL_ARG_WORKSPACE, *step.extra},
                                    {DNNL_ARG_DIFF_SRC, in_difference}});
    return in_difference;
  }

  memory conv_backward(const Layer& layer, const Step& step, const memory& difference, bool want_input) {
    const Dims weight = weight_dims(layer, step.source);
    const Dims bias = {layer.out.channels};
    const Dims strides = {layer.stride, layer.stride};
    const Dims padding = {layer.padding, layer.padding};
    const dnnl::convolution_backward_weights::primitive_desc weights(
        {algorithm::convolution_direct, any(dims_of(layer.in)), any(weight), plain(bias),
         any(dims_of(layer.out)), strides, padding, padding},
        attributes(), engine_, *step.conv);
    append_weight_gradient<dnnl::convolution_backward_weights>(layer, step, difference, weights, weight);
    if (!want_input) return difference;
    const dnnl::convolution_backward_data::primitive_desc data(
        {algorithm::convolution_direct, any(dims_of(layer.in)), any(weight), any(dims_of(layer.out)), strides,
         padding, padding},
        attributes(), engine_, *step.conv);
    return append_input_difference<dnnl::convolution_backward_data>(layer, difference, data, weight);
  }

  memory dense_backward(const Layer& layer, const Step& step, const memory& difference, bool want_input) {
    const Dims weight = weight_dims(layer, step.source);
    const Dims source = step.source.get_desc().dims();
    const Dims out = {batch_size_, layer.out.channels};
    const dnnl::inner_product_backward_weights::primitive_desc weights(
        {any(source), plain(weight), plain({layer.out.channels}), any(out)}, attributes(), engine_,
        *step.dense);
    append_weight_gradient<dnnl::inner_product_backward_weights>(layer, step, difference, weights, weight);
    if (!want_input) return difference;
    const dnnl::inner_product_backward_data::primitive_desc data({any(source), plain(weight), any(out)},
                                                                 attributes(), engine_, *step.dense);
    return append_input_difference<dnnl::inner_product_backward_data>(layer, difference, data, weight);
  }

  template <typename Primitive>
  void append_weight_gradient(const Layer& layer, const Step& step, const memory& difference,
                              const typename Primitive::primitive_desc& desc, const Dims& weight) {
    std::optional<std::pair<memory, memory>> after;
    const memory computed = gradient_in(layer.weight, weight, desc.diff_weights_desc(), after);
    const bool as_read = step.read.get_desc() == desc.src_desc();
    const memory source = in_format(backward_, as_read ? step.read : step.source, desc.src_desc());
    const memory out_difference = in_format(backward_, difference, desc.diff_dst_desc());
    append<Primitive>(backward_, desc,
                      {{DNNL_ARG_SRC, source},
                       {DNNL_ARG_DIFF_DST, out_difference},
                       {DNNL_ARG_DIFF_WEIGHTS, computed},
                       {DNNL_ARG_DIFF_BIAS, window(gradients_, layer.bias, {layer.out.channels})}});
    if (after) append_reorder(backward_, after->first, after->second);
  }

  template <typename Primitive>
  memory append_input_difference(const Layer& layer, const memory& difference,
                                 const typename Primitive::primitive_desc& desc, const Dims& weight) {
    const memory weights = in_format(backward_, parameter(layer.weight, weight), desc.weights_desc());
    const memory out_difference = in_format(backward_, difference, desc.diff_dst_desc());
    memory in_difference = make(desc.diff_src_desc());
    append<Primitive>(backward_, desc,
                      {{DNNL_ARG_WEIGHTS, weights},
                       {DNNL_ARG_DIFF_DST, out_difference},
                       {DNNL_ARG_DIFF_SRC, in_difference}});
    return in_difference;
  }

  // One arena for all: primitives run one after another.
  void bind_scratchpads() {
    if (arena_bytes_ == 0) return;
    arena_ = make({{static_cast<memory::dim>(arena_bytes_)}, memory::data_type::u8, Tag::a});
    for (memory& scratchpad : scratchpads_) scratchpad.set_data_handle(arena_.get_data_handle());
  }

  NetworkSpec network_;
  std::int64_t batch_size_;
  std::uint64_t seed_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  memory images_;                     // points at the caller's images, or at ...
  std::vector<float> filled_images_;  // ... a smaller mini-batch's, filled up with zeros
  memory logits_;
  memory logit_difference_;
  std::vector<Step> steps_;
  std::vector<Call> forward_;
  std::vector<Call> backward_;
  std::vector<Window> parameters_;
  std::vector<Window> gradients_;
  std::vector<Mask> masks_;
  std::vector<memory> scratchpads_;
  std::size_t arena_bytes_ = 0;
  memory arena_;
};

}  // namespace

Result<std::unique_ptr<NetworkBackend>> make_onednn_backend(NetworkSpec network, std::int64_t batch_size,
                                                            std::uint64_t seed) {
  omp_set_num_threads(1);
  try {
    return std::unique_ptr<NetworkBackend>(
        std::make_unique<OnednnBackend>(std::move(network), batch_size, seed));
  } catch (const dnnl::error& e) {
    return internal_error(std::string("oneDNN: ") + e.what());
  }
}

}  // namespace paceline
