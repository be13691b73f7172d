// A network as a oneDNN program: which layers are computed in which order, over which memory, and how the
// differences that come back along several ways are added up. What each layer appends is in
// layers/<kind>/onednn.cc. Private to onednn*.cc.
//
// Three things make a step cheaper than the layers as written, and change no result:
//   a ReLU in front of a max-pool is applied after it (they commute), on a quarter of the elements;
//   a ReLU after a convolution or a dense layer is done by that primitive; every other one works in place;
//   the backward pass writes where activations lay that nothing needs any more (onednn_program.h).
// Each only where nobody else reads what is not there any more, or is written over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/network/stages.h"
#include "worker/model/layers/onednn_layer.h"

namespace paceline::onednn {

// Thread: the one that made it. The constructor may throw dnnl::error.
class Plan {
 public:
  // `network` must outlive this, and `norm_group`, if there is one. `products`: Program's.
  Plan(const NetworkSpec& network, std::int64_t batch_size, NormGroup* norm_group = nullptr,
       Type products = Type::f32);
  // Of a stage of it alone.
  Plan(const NetworkSpec& network, const StageSpec& stage, std::int64_t batch_size,
       NormGroup* norm_group = nullptr, Type products = Type::f32);

  std::int64_t samples() const { return batch_size_; }
  Program& program() { return program_; }
  memory& images() { return images_; }  // row-major, unbound: point it at the mini-batch before each run
  // Of a network without loss layers.
  const memory& logits() const { return logits_; }  // batch_size x classes, after Pass::kForward
  const memory& logit_difference() const { return logit_difference_; }  // the same, read by Pass::kBackward
  // Of one with some: what each gives, batch_size numbers after Pass::kForward, and its difference, read by
  // Pass::kBackward.
  struct LossEnd {
    const Layer* layer;
    memory losses;
    memory difference;
  };
  const std::vector<LossEnd>& losses() const { return losses_; }
  Current& current() { return current_; }  // set it before each run
  // What dropout lets through in a training step of the mini-batch (dropout.h).
  void draw_masks(std::uint64_t seed, const Batch& batch) const;

  // Of a stage, each row-major: what has come from the stage in front, and what goes on to the next one, in the order
  // of StageSpec; what comes back of the latter, and goes back of the former, as far as it depends on parameters.
  // The backward pass writes over what has come back.
  const std::vector<memory>& arrived() const { return arrived_; }
  const std::vector<memory>& going_on() const { return going_on_; }
  const std::vector<memory>& returned_differences() const { return returned_differences_; }
  const std::vector<memory>& going_back() const { return going_back_; }
  // Of its values and their differences: what it holds for a micro-batch.
  std::int64_t activation_bytes() const { return program_.arena_bytes(); }

 private:
  // A layer that is computed. Values are numbered as in the network.
  struct Node {
    const Layer* layer;
    std::size_t index;
    std::vector<std::size_t> inputs;  // values of layers that are computed, or the image
    std::size_t output;               // the value that it gives: of a ReLU that it does, that one's
    bool with_relu = false;
    bool in_place = false;          // it has written over its source
    bool reads_narrow = false;      // bfloat16, where that is what the program multiplies
    std::vector<memory> sources{};  // as they lie where they were made
    std::unique_ptr<OnednnLayer> computed{};
  };
  using Nodes = std::vector<Node>;

  Nodes nodes_in_order();
  std::ptrdiff_t readers_of(const Nodes& nodes, std::size_t value) const;
  bool gives_logits() const { return stage_.last == network_.layers.size() && !network_.has_losses(); }
  void swap_relus_and_pools(Nodes& nodes) const;
  void let_layers_do_relus(Nodes& nodes) const;
  void count_readers();
  const Node* maker_of(std::size_t value) const;
  void find_narrow();
  bool may_overwrite(std::size_t value) const;
  bool is_free(std::size_t value) const;
  memory source_of(const Node& node, std::size_t input);
  void build_forward();
  void build_backward();
  std::vector<bool> trained_in_front() const;
  void add_difference(std::optional<memory>& sum, const memory& difference);

  const NetworkSpec& network_;
  const StageSpec stage_;
  std::int64_t batch_size_;
  std::vector<std::size_t> root_;  // by value: the one that is computed, or comes in
  Program program_;
  memory images_;
  memory logits_;
  memory logit_difference_;
  std::vector<LossEnd> losses_;
  Current current_;
  Nodes nodes_;
  std::vector<int> readers_;  // by value: inputs of nodes, and the loss
  std::vector<bool> narrow_;  // by value: a layer reads it as bfloat16, and no loss reads it
  std::vector<std::optional<memory>> outputs_;  // by value, where there is one
  std::vector<const Mask*> masks_;
  std::vector<memory> arrived_;
  std::vector<memory> going_on_;
  std::vector<memory> returned_differences_;
  std::vector<memory> going_back_;
};

}  // namespace paceline::onednn
