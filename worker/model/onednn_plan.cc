#include "worker/model/onednn_plan.h"

#include <algorithm>
#include <utility>

#include "common/assert.h"
#include "worker/model/dropout.h"

namespace paceline::onednn {

using Moment = Program::Moment;

Plan::Plan(const NetworkSpec& network, std::int64_t batch_size, NormGroup* norm_group, Type products)
    : Plan(network, whole_network(network), batch_size, norm_group, products) {}

Plan::Plan(const NetworkSpec& network, const StageSpec& stage, std::int64_t batch_size, NormGroup* norm_group,
           Type products)
    : network_(network),
      stage_(stage),
      batch_size_(batch_size),
      root_(network.layers.size() + 1),
      program_(products),
      images_(program_.make_unbound(plain(dims_of(batch_size, network.input)))),
      nodes_(nodes_in_order()),
      outputs_(network.layers.size() + 1) {
  program_.set_norm_group(norm_group);
  swap_relus_and_pools(nodes_);
  let_layers_do_relus(nodes_);
  count_readers();
  find_narrow();
  build_forward();
  build_backward();
  program_.finish();
}

// --- which layers, in which order

// The layers but those that are nothing: who reads one of those reads what it reads.
Plan::Nodes Plan::nodes_in_order() {
  Nodes nodes;
  for (const std::size_t value : stage_.inputs) root_[value] = value;
  for (std::size_t i = stage_.first; i < stage_.last; ++i) {
    const Layer& layer = network_.layers[i];
    Node node{.layer = &layer, .index = i, .inputs = layer.inputs, .output = i + 1};
    for (std::size_t& value : node.inputs) value = root_[value];
    const bool nothing = onednn_kind(layer.kind).is_nothing;
    root_[i + 1] = nothing ? node.inputs.front() : i + 1;
    if (!nothing) nodes.push_back(std::move(node));
  }
  return nodes;
}

// How many inputs of nodes a value is, and how often it goes on to the next stage.
std::ptrdiff_t Plan::readers_of(const Nodes& nodes, std::size_t value) const {
  std::ptrdiff_t readers = std::count_if(stage_.outputs.begin(), stage_.outputs.end(),
                                         [&](std::size_t output) { return root_[output] == value; });
  for (const Node& node : nodes) readers += std::count(node.inputs.begin(), node.inputs.end(), value);
  return readers;
}

// relu, pool become pool, relu: what the ReLU gave is the pool's now, and the pool's the ReLU's.
void Plan::swap_relus_and_pools(Nodes& nodes) const {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!onednn_kind(nodes[i].layer->kind).commutes_with_relu) continue;
    const std::size_t read = nodes[i].inputs.front();
    const auto relu = std::find_if(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(i),
                                   [&](const Node& node) { return node.output == read; });
    if (relu == nodes.begin() + static_cast<std::ptrdiff_t>(i) || !onednn_kind(relu->layer->kind).is_relu) {
      continue;
    }
    if (readers_of(nodes, read) != 1) continue;
    Node& pool = nodes[i];
    std::swap(relu->output, pool.output);
    pool.inputs = std::exchange(relu->inputs, {pool.output});
    // The ReLU comes right after the pool, as nobody between them reads it.
    std::rotate(relu, std::next(relu), nodes.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
}

void Plan::let_layers_do_relus(Nodes& nodes) const {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Node& node = nodes[i];
    if (!onednn_kind(node.layer->kind).does_relu || readers_of(nodes, node.output) != 1) continue;
    const auto reader = std::find_if(nodes.begin(), nodes.end(), [&](const Node& other) {
      return std::count(other.inputs.begin(), other.inputs.end(), node.output) > 0;
    });
    if (reader == nodes.end() || !onednn_kind(reader->layer->kind).is_relu) continue;
    node.with_relu = true;
    node.output = reader->output;
    nodes.erase(reader);
  }
}

// --- memory that may be written over

void Plan::count_readers() {
  readers_.assign(network_.layers.size() + 1, 0);
  for (const Node& node : nodes_) {
    for (const std::size_t value : node.inputs) ++readers_[value];
  }
  for (const std::size_t value : stage_.outputs) ++readers_[root_[value]];
  if (gives_logits()) ++readers_[nodes_.back().output];
}

// Null for the image, and for what has come from another stage.
const Plan::Node* Plan::maker_of(std::size_t value) const {
  const auto maker =
      std::find_if(nodes_.begin(), nodes_.end(), [&](const Node& node) { return node.output == value; });
  return maker == nodes_.end() ? nullptr : &*maker;
}

// What losses and the caller read is float, and so is what makes it but for what is multiplied: a kind that only gives
// what it is given goes by who reads its output.
void Plan::find_narrow() {
  narrow_.assign(network_.layers.size() + 1, false);
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    const bool read_by_loss = std::any_of(nodes_.begin(), nodes_.end(), [&](const Node& reader) {
      return reader.layer->loss.is_one &&
             std::count(reader.inputs.begin(), reader.inputs.end(), node->output) > 0;
    });
    if (read_by_loss) narrow_[node->output] = false;
    const OnednnKind& kind = onednn_kind(node->layer->kind);
    node->reads_narrow = kind.narrow && (kind.multiplies || narrow_[node->output]);
    for (const std::size_t value : node->inputs) narrow_[value] = narrow_[value] || node->reads_narrow;
  }
}

// By the one node that reads it, with what has the same sign or is zero: a ReLU's backward pass does not mind
// (layers/relu/onednn.cc).
bool Plan::may_overwrite(std::size_t value) const {
  const Node* const maker = maker_of(value);
  if (maker == nullptr || readers_[value] != 1) return false;  // the image is not ours
  return !maker->computed->reads_output() || maker->with_relu || onednn_kind(maker->layer->kind).is_relu;
}

// After the forward pass of the one node that reads it nobody reads it any more.
bool Plan::is_free(std::size_t value) const {
  const Node* const maker = maker_of(value);
  return maker != nullptr && readers_[value] == 1 && !maker->in_place && !maker->computed->reads_output();
}

// --- forward

// A node's source as its kind wants it.
memory Plan::source_of(const Node& node, std::size_t input) {
  const OnednnKind& kind = onednn_kind(node.layer->kind);
  memory source = node.sources[input];
  if (kind.by_shape) {
    const Shape& shape = network_.shape_of(node.layer->inputs[input]);
    source = program_.shaped(Pass::kForward, source, dims_of(batch_size_, shape));
  }
  if (node.reads_narrow || type_of(source) == Type::f32) return source;
  return program_.in_format(Pass::kForward, source, widened(source.get_desc()));
}

void Plan::build_forward() {
  for (const std::size_t value : stage_.inputs) {
    const bool is_image = stage_.first == 0;
    outputs_[value] =
        is_image ? images_ : program_.make(plain(dims_of(batch_size_, network_.shape_of(value))));
    if (is_image) continue;
    arrived_.push_back(*outputs_[value]);
    program_.used_by_caller(arrived_.back(), Moment::kBefore);
  }
  for (Node& node : nodes_) {
    for (const std::size_t value : node.inputs) node.sources.push_back(*outputs_[value]);
    Surroundings around{.may_overwrite = may_overwrite(node.inputs.front()),
                        .source_is_free = is_free(node.inputs.front()),
                        .with_relu = node.with_relu,
                        .wide_output = !narrow_[node.output],
                        .current = &current_};
    for (std::size_t k = 0; k < node.sources.size(); ++k) around.sources.push_back(source_of(node, k));
    node.computed = onednn_kind(node.layer->kind).make(*node.layer, node.index, batch_size_);
    const memory output = node.computed->forward(program_, around);
    node.in_place = program_.same_place(output, node.sources.front());
    outputs_[node.output] = output;
    if (const Mask* const mask = node.computed->mask()) masks_.push_back(mask);
    if (!node.layer->loss.is_one) continue;
    losses_.push_back({node.layer, output, program_.make_lasting(output.get_desc())});
    program_.used_by_caller(output, Moment::kBetween);
  }
  for (const std::size_t value : stage_.outputs) {
    const Dims dims = dims_of(batch_size_, network_.shape_of(value));
    const memory shaped = program_.shaped(Pass::kForward, *outputs_[root_[value]], dims);
    going_on_.push_back(program_.in_format(Pass::kForward, shaped, plain(dims)));
    program_.used_by_caller(going_on_.back(), Moment::kBetween);
  }
  if (!gives_logits()) return;
  const Dims logits{batch_size_, network_.classes};
  const memory shaped = program_.shaped(Pass::kForward, *outputs_[nodes_.back().output], logits);
  logits_ = program_.in_format(Pass::kForward, shaped, plain(logits));
  program_.used_by_caller(logits_, Moment::kBetween);
}

// --- backward

// By value: whether it depends on parameters. Nobody needs a difference of one that does not.
std::vector<bool> Plan::trained_in_front() const {
  std::vector<bool> trained(network_.layers.size() + 1, false);
  for (const std::size_t value : only_trained(network_, stage_.inputs)) trained[value] = true;
  for (const Node& node : nodes_) {
    trained[node.output] = node.layer->weight.size + node.layer->buffers() > 0 ||
                           std::any_of(node.inputs.begin(), node.inputs.end(),
                                       [&](std::size_t value) { return trained[value]; });
  }
  return trained;
}

// The memory of the first becomes that of the sum.
void Plan::add_difference(std::optional<memory>& sum, const memory& difference) {
  if (sum) {
    program_.append_sum(Pass::kBackward, *sum, difference);
  } else {
    sum = difference;
  }
}

void Plan::build_backward() {
  const std::vector<bool> trained = trained_in_front();
  std::vector<std::optional<memory>> differences(trained.size());  // by value
  if (gives_logits()) {
    const memory& output = *outputs_[nodes_.back().output];
    logit_difference_ = program_.make(logits_.get_desc());
    program_.used_by_caller(logit_difference_, Moment::kBetween);
    differences[nodes_.back().output] =
        program_.shaped(Pass::kBackward, logit_difference_, onednn::dims_of(output.get_desc()));
  }
  auto end = losses_.begin();
  for (const Node& node : nodes_) {
    if (node.layer->loss.is_one) differences[node.output] = (end++)->difference;
  }
  for (const std::size_t value : only_trained(network_, stage_.outputs)) {
    returned_differences_.push_back(program_.make(plain(dims_of(batch_size_, network_.shape_of(value)))));
    program_.used_by_caller(returned_differences_.back(), Moment::kBetween);
    const Dims dims = onednn::dims_of(outputs_[root_[value]]->get_desc());
    add_difference(differences[root_[value]],
                   program_.shaped(Pass::kBackward, returned_differences_.back(), dims));
  }
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    if (!trained[node->output]) continue;
    memory difference = *differences[node->output];
    if (node->with_relu && !onednn_kind(node->layer->kind).undoes_relu) {
      difference = relu_backward(program_, *outputs_[node->output], difference);
    }
    std::vector<bool> wanted;
    for (const std::size_t value : node->inputs) wanted.push_back(trained[value]);
    const std::vector<memory> of_sources = node->computed->backward(program_, difference, wanted);
    PACELINE_ASSERT(of_sources.size() == wanted.size(), node->layer->name);
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      if (!wanted[k]) continue;
      const Dims dims = onednn::dims_of(node->sources[k].get_desc());
      add_difference(differences[node->inputs[k]], program_.shaped(Pass::kBackward, of_sources[k], dims));
    }
  }
  if (stage_.first == 0) return;  // nothing goes back of the image
  for (const std::size_t value : only_trained(network_, stage_.inputs)) {
    const Dims dims = dims_of(batch_size_, network_.shape_of(value));
    const memory shaped = program_.shaped(Pass::kBackward, *differences[value], dims);
    going_back_.push_back(program_.in_format(Pass::kBackward, shaped, plain(dims)));
    program_.used_by_caller(going_back_.back(), Moment::kAfter);
  }
}

void Plan::draw_masks(std::uint64_t seed, const Batch& batch) const {
  for (const Mask* const mask : masks_) {
    const Layer& layer = network_.layers[mask->layer_index];
    const auto floats = static_cast<std::size_t>(batch.size() * layer.out.size());
    fill_dropout_mask(layer, mask->layer_index, seed, batch, {floats_of(mask->drawn), floats});
  }
}

}  // namespace paceline::onednn
