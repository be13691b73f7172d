// A network as a oneDNN program: each layer's primitives for the forward and the backward pass. Private to
// onednn*.cc.
//
// Three things make a step cheaper than the layers as written, and change no result:
//   a ReLU in front of a max-pool is applied behind it (they commute), on a quarter of the elements;
//   a ReLU behind a convolution or a dense layer is done by that primitive; every other one works in place;
//   a pool's backward pass writes over the activations it pooled, where nothing needs them any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "worker/model/onednn_program.h"

namespace paceline::onednn {

// What the backward pass must know about one layer of the forward pass.
struct Step {
  std::size_t layer_index = 0;
  LayerKind kind = LayerKind::kRelu;
  memory source;
  memory read;    // conv, dense: the source in the format that the forward primitive reads
  memory output;  // relu, dropout: the source itself
  bool fused_relu = false;
  bool source_is_free = false;  // nothing but this layer's forward primitive reads the source
  std::optional<memory> extra;  // pool: where the maxima were; dropout: the mask in the output's format
  std::optional<dnnl::convolution_forward::primitive_desc> conv;
  std::optional<dnnl::inner_product_forward::primitive_desc> dense;
  std::optional<dnnl::pooling_forward::primitive_desc> pool;
};

// A mask that must be drawn before a training step's forward pass: row-major, zero until then.
struct Mask {
  std::size_t layer_index;
  memory drawn;
};

// Thread: the one that made it. The constructor may throw dnnl::error.
class LayerProgram {
 public:
  // `network` must outlive this.
  LayerProgram(const NetworkSpec& network, std::int64_t batch_size);

  Program& program() { return program_; }
  memory& images() { return images_; }  // row-major, unbound: point it at the mini-batch before each run
  const memory& logits() const { return logits_; }  // batch_size x classes, after Pass::kForward
  const memory& logit_difference() const { return logit_difference_; }  // the same, read by Pass::kBackward
  const std::vector<Mask>& masks() const { return masks_; }

 private:
  using Pass = Program::Pass;

  Dims dims_of(const Shape& shape) const { return {batch_size_, shape.channels, shape.height, shape.width}; }
  std::vector<std::size_t> execution_order() const;

  void build_forward();
  void conv_forward(const Layer& layer, Step& step);
  void dense_forward(const Layer& layer, Step& step);
  void pool_forward(const Layer& layer, Step& step);
  void relu_forward(Step& step);
  void dropout_forward(Step& step);
  dnnl::eltwise_forward::primitive_desc relu_desc(const memory::desc& desc) const;
  void multiply(Pass pass, const memory& target, const memory& factor);

  // Each takes d(loss)/d(output) and returns d(loss)/d(source); conv and dense also append the parameters'
  // gradient, and return an empty memory when nobody `wants` the source's.
  enum class SourceDifference { kWanted, kUnused };
  void build_backward();
  memory relu_backward(const Step& step, const memory& difference);
  memory pool_backward(const Layer& layer, const Step& step, const memory& difference);
  memory conv_backward(const Layer& layer, const Step& step, const memory& difference,
                       SourceDifference wanted);
  memory dense_backward(const Layer& layer, const Step& step, const memory& difference,
                        SourceDifference wanted);
  template <typename Primitive>
  void append_parameter_gradient(const Layer& layer, const Step& step, const memory& difference,
                                 const typename Primitive::primitive_desc& desc);
  template <typename Primitive>
  memory append_source_difference(const Layer& layer, const Step& step, const memory& difference,
                                  const typename Primitive::primitive_desc& desc);

  const NetworkSpec& network_;
  std::int64_t batch_size_;
  Program program_;
  memory images_;
  memory logits_;
  memory logit_difference_;
  std::vector<Step> steps_;
  std::vector<Mask> masks_;
};

}  // namespace paceline::onednn
