// One layer of the oneDNN back end: it appends its primitives to a program (worker/model/onednn_program.h).
// One for each kind, in layers/<kind>/onednn.cc. How layers are put together is onednn_plan.h's.
//
// The memory of a value has samples first. A flatten is nothing here, so a vector may lie as the image that
// it was: a layer that goes by channels and places is given sources of its own shapes (OnednnKind::by_shape).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "worker/model/batch.h"
#include "worker/model/onednn_program.h"

namespace paceline::onednn {

using Pass = Program::Pass;

inline Dims dims_of(std::int64_t samples, const Shape& shape) {
  return {samples, shape.channels, shape.height, shape.width};
}

// A mask that must be drawn before a training step's forward pass: row-major, zero until then.
struct Mask {
  std::size_t layer_index;
  memory drawn;
};

// The mini-batch of a run, for layers that look at its labels, and what they have counted.
struct Current {
  const Batch* batch = nullptr;
  std::int64_t hits = 0;
};

// What a layer is put between.
struct Surroundings {
  std::vector<memory> sources{};
  bool may_overwrite = false;   // the forward pass may write its output over sources[0]
  bool source_is_free = false;  // so may it with whatever it likes: nothing reads that any more
  bool with_relu = false;       // of a kind that does one: the ReLU after it
  bool wide_output = false;    // of a kind that multiplies: nobody reads the output as bfloat16, so it is f32
  Current* current = nullptr;  // outlives the layer
};

// Thread: the one that made it. Every member may throw dnnl::error.
class OnednnLayer {
 public:
  virtual ~OnednnLayer() = default;

  // Appends the forward pass and returns the output: new memory, or sources[0] where that may be overwritten.
  virtual memory forward(Program& program, const Surroundings& around) = 0;

  // Appends the backward pass, after forward(): from d(loss)/d(output), which it may write over, to
  // d(loss)/d(source k) where wanted[k], empty memory elsewhere. No two of them share memory. Where it has
  // parameters it appends their gradient first, and marks it as final. A ReLU that it did is behind
  // `difference` already, but for a kind that undoes it.
  virtual std::vector<memory> backward(Program& program, const memory& difference,
                                       const std::vector<bool>& wanted) = 0;

  // Whether its backward pass reads the output, so that nobody may write over it.
  virtual bool reads_output() const { return false; }
  // What it must have drawn; null: nothing.
  virtual const Mask* mask() const { return nullptr; }
};

// What the plan asks of a kind.
struct OnednnKind {
  std::unique_ptr<OnednnLayer> (*make)(const Layer& layer, std::size_t index, std::int64_t samples);
  bool narrow = false;      // its sources may be bfloat16; the others' are f32 in every program
  bool multiplies = false;  // it gives what Surroundings::wide_output says; the others what their sources are
  bool by_shape = false;    // its sources have the dimensions of its inputs' shapes
  bool is_nothing = false;  // its output is its source as it lies; it is never made
  bool is_relu = false;
  bool does_relu = false;           // it can do a ReLU after it
  bool undoes_relu = false;         // its backward pass goes through that ReLU, too
  bool commutes_with_relu = false;  // the same comes out with a ReLU in front or after
};

// `make` of a kind whose layers are made of the layer's shape and the samples, of the shape alone, or of nothing.
template <typename L>
std::unique_ptr<OnednnLayer> made(const Layer& layer, std::size_t, std::int64_t samples) {
  if constexpr (std::is_constructible_v<L, const Layer&, std::int64_t>) {
    return std::make_unique<L>(layer, samples);
  } else if constexpr (std::is_constructible_v<L, const Layer&>) {
    return std::make_unique<L>(layer);
  } else {
    return std::make_unique<L>();
  }
}

// Of a layer's kind.
const OnednnKind& onednn_kind(LayerKind kind);

// d(loss)/d(what a ReLU read) by what it gave; a difference in the same format is written over.
memory relu_backward(Program& program, const memory& output, const memory& difference);

}  // namespace paceline::onednn
