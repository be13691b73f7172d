// The layer kinds, one line each: the key in code; the name in YAML, in messages and of the folder that has
// all that there is to a kind, worker/model/layers/<name>/; and whether it is there on a GPU, too.
//
//   shape.cc      its rule (common/network/layer_rule.h): inputs, fields, shapes, parameters
//   reference.cc  its plain loops (worker/model/layers/reference_layer.h)
//   onednn.cc     its primitives (worker/model/layers/onednn_layer.h)
//   cuda.cc       what it is on a GPU (worker/model/layers/cuda_layer.h)
//   onnx.cc       its nodes in an ONNX file (worker/model/onnx_graph.h)
//
// Every table of layers is made of this list. A new kind is a folder and a line here; nothing else names
// kinds but who describes a network (common/network/ready_made.cc, a configuration, a test).
#pragma once

#define PACELINE_LAYER_KINDS(X)                    \
  X(kConv, conv, true)                             \
  X(kPool, pool, true)                             \
  X(kDense, dense, true)                           \
  X(kRelu, relu, true)                             \
  X(kDropout, dropout, true)                       \
  X(kFlatten, flatten, true)                       \
  X(kAdd, add, true)                               \
  X(kConcat, concat, false)                        \
  X(kGlobalAveragePool, global_average_pool, true) \
  X(kAveragePool, average_pool, true)              \
  X(kLrn, lrn, false)                              \
  X(kSigmoid, sigmoid, false)                      \
  X(kTanh, tanh, false)                            \
  X(kBatchNorm, batch_norm, true)                  \
  X(kScale, scale, false)                          \
  X(kSlice, slice, false)                          \
  X(kMultiply, multiply, false)                    \
  X(kMaximum, maximum, false)                      \
  X(kSoftmaxLoss, softmax_loss, false)             \
  X(kSigmoidLoss, sigmoid_loss, false)             \
  X(kEuclideanLoss, euclidean_loss, false)         \
  X(kContrastiveLoss, contrastive_loss, false)

namespace paceline {

#define PACELINE_KEY(key, name, on_gpu) key,
enum class LayerKind { PACELINE_LAYER_KINDS(PACELINE_KEY) };
#undef PACELINE_KEY

constexpr bool is_on_gpu(LayerKind kind) {
  switch (kind) {
#define PACELINE_CASE(key, name, on_gpu) \
  case LayerKind::key:                   \
    return on_gpu;
    PACELINE_LAYER_KINDS(PACELINE_CASE)
#undef PACELINE_CASE
  }
  return false;
}

}  // namespace paceline
