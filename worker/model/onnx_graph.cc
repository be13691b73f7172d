#include "worker/model/onnx_graph.h"

#include <algorithm>
#include <bit>

#include "common/assert.h"
#include "common/files/atomic_file.h"
#include "proto/onnx.pb.h"

namespace paceline {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

#define PACELINE_DECLARE(key, name, on_gpu)           \
  namespace layers::name {                            \
  void to_onnx(const Layer& layer, OnnxGraph& graph); \
  }
PACELINE_LAYER_KINDS(PACELINE_DECLARE)
#undef PACELINE_DECLARE

namespace {

constexpr int kIrVersion = 7;  // the oldest that has opset 13
constexpr int kOpset = 13;

void declare(const std::string& name, const std::vector<std::int64_t>& sizes,
             onnx_proto::ValueInfoProto& value) {
  value.set_name(name);
  auto& tensor = *value.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(onnx_proto::TensorProto::FLOAT);
  tensor.mutable_shape()->add_dim()->set_dim_param("N");
  for (const std::int64_t size : sizes) tensor.mutable_shape()->add_dim()->set_dim_value(size);
}

void set(onnx_proto::AttributeProto& to, std::int64_t value) {
  to.set_type(onnx_proto::AttributeProto::INT);
  to.set_i(value);
}
void set(onnx_proto::AttributeProto& to, float value) {
  to.set_type(onnx_proto::AttributeProto::FLOAT);
  to.set_f(value);
}
void set(onnx_proto::AttributeProto& to, const std::vector<std::int64_t>& values) {
  to.set_type(onnx_proto::AttributeProto::INTS);
  to.mutable_ints()->Add(values.begin(), values.end());
}

// What the network is asked for, by number of the value: without losses the last.
std::vector<std::size_t> outputs_of(const NetworkSpec& network) {
  std::vector<std::size_t> outputs;
  for (const Layer& layer : network.layers) {
    const bool is_new = std::find(outputs.begin(), outputs.end(), layer.inputs.front()) == outputs.end();
    if (layer.loss.is_one && is_new) outputs.push_back(layer.inputs.front());
  }
  if (outputs.empty()) outputs.push_back(network.layers.size());
  return outputs;
}

Status check_no_loss_is_read(const NetworkSpec& network) {
  for (const Layer& layer : network.layers) {
    for (const std::size_t value : layer.inputs) {
      if (value == 0 || !network.layers[value - 1].loss.is_one) continue;
      return invalid_argument("layer " + layer.name + " reads the loss " + network.layers[value - 1].name +
                              ", expected losses that no layer reads: there are no labels in an evaluation");
    }
  }
  return Status::ok();
}

void describe(const ModelInfo& info, onnx_proto::ModelProto& model) {
  const auto add = [&](const char* key, const std::string& value) {
    auto& entry = *model.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  };
  add("model", info.model);
  add("version", std::to_string(info.version.value));
}

}  // namespace

OnnxGraph::OnnxGraph(const NetworkSpec& network, std::span<const float> parameters,
                     onnx_proto::GraphProto& graph)
    : network_(network), parameters_(parameters), graph_(graph) {
  values_.push_back({"input", Rank::kImage});
  take_name("input");
  declare(values_.front().name, {network.input.channels, network.input.height, network.input.width},
          *graph_.add_input());
}

void OnnxGraph::add(std::size_t index) {
  PACELINE_ASSERT(values_.size() == index + 1, "layers in their order");
  layer_ = &network_.layers[index];
  switch (layer_->kind) {
#define PACELINE_CASE(key, name, on_gpu)   \
  case LayerKind::key:                     \
    layers::name::to_onnx(*layer_, *this); \
    break;
    PACELINE_LAYER_KINDS(PACELINE_CASE)
#undef PACELINE_CASE
  }
  PACELINE_ASSERT(values_.size() == index + 2, layer_->name + " gives one value");
}

void OnnxGraph::give_out(std::size_t value) {
  // The output has a name of its own: that of a dropout's value is its input's.
  const std::string output = value == 0 ? "output" : network_.layers[value - 1].name + ".output";
  add_node(output, "Flatten", {values_[value].name}, {{"axis", std::int64_t{1}}});
  declare(output, {network_.shape_of(value).size()}, *graph_.add_output());
}

const OnnxGraph::Value& OnnxGraph::read(std::size_t input) const { return values_[layer_->inputs[input]]; }

std::string OnnxGraph::image(std::size_t input) {
  const Value& value = read(input);
  if (value.rank == Rank::kImage) return value.name;
  const std::string name = value.name + ".image";
  if (!shared_.insert(name).second) return name;
  return add_node(name, "Unsqueeze", {value.name, integers("places", {2, 3})}, {});
}

std::string OnnxGraph::vector(std::size_t input) {
  const Value& value = read(input);
  if (value.rank == Rank::kVector) return value.name;
  const std::string name = value.name + ".vector";
  if (!shared_.insert(name).second) return name;
  return add_node(name, "Flatten", {value.name}, {{"axis", std::int64_t{1}}});
}

OnnxGraph::Rank OnnxGraph::rank() const {
  for (std::size_t i = 0; i < layer_->inputs.size(); ++i) {
    if (read(i).rank == Rank::kVector) return Rank::kVector;
  }
  return Rank::kImage;
}

OnnxGraph::Names OnnxGraph::inputs() {
  Names names;
  for (std::size_t i = 0; i < layer_->inputs.size(); ++i) {
    names.push_back(rank() == Rank::kVector ? vector(i) : image(i));
  }
  return names;
}

std::span<const float> OnnxGraph::values(const ParameterRange& range) const {
  return parameters_.subspan(static_cast<std::size_t>(range.offset), static_cast<std::size_t>(range.size));
}

std::string OnnxGraph::tensor(const ParameterRange& range, std::span<const float> instead) {
  const Tensor* const tensor = network_.layout.tensor_at(range.offset);
  PACELINE_ASSERT(tensor != nullptr && tensor->size() == range.size, layer_->name);
  // Layers that share their weights have one initializer.
  if (!shared_.insert(tensor->name).second) return tensor->name;
  add_initializer(tensor->name, tensor->shape, onnx_proto::TensorProto::FLOAT,
                  std::as_bytes(instead.empty() ? values(range) : instead));
  return tensor->name;
}

std::string OnnxGraph::floats(const char* what, const std::vector<std::int64_t>& shape,
                              std::span<const float> values) {
  add_initializer(named(what), shape, onnx_proto::TensorProto::FLOAT, std::as_bytes(values));
  return named(what);
}

std::string OnnxGraph::integers(const char* what, const std::vector<std::int64_t>& values) {
  if (shared_.insert(named(what)).second) {
    add_initializer(named(what), {std::ssize(values)}, onnx_proto::TensorProto::INT64,
                    std::as_bytes(std::span(values)));
  }
  return named(what);
}

void OnnxGraph::take_name(const std::string& name) {
  if (!written_.insert(name).second && taken_twice_.empty()) taken_twice_ = name;
}

Status OnnxGraph::check_names() const {
  if (taken_twice_.empty()) return Status::ok();
  return invalid_argument(
      "'" + taken_twice_ +
      "' would be the name of two values of the ONNX graph, expected layers of other names");
}

void OnnxGraph::add_initializer(const std::string& name, const std::vector<std::int64_t>& shape, int type,
                                std::span<const std::byte> bytes) {
  take_name(name);
  auto& tensor = *graph_.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(type);
  tensor.mutable_dims()->Add(shape.begin(), shape.end());
  tensor.set_raw_data(bytes.data(), bytes.size());
}

std::string OnnxGraph::named(const std::string& what) const { return layer_->name + "." + what; }

std::string OnnxGraph::add_node(const std::string& output, const char* op, const Names& inputs,
                                const Attributes& attributes) {
  take_name(output);
  auto& node = *graph_.add_node();
  node.set_name(output);
  node.set_op_type(op);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
  for (const auto& [name, value] : attributes) {
    auto& attribute = *node.add_attribute();
    attribute.set_name(name);
    std::visit([&](const auto& of) { set(attribute, of); }, value);
  }
  return output;
}

std::string OnnxGraph::compute(const char* what, const char* op, const Names& inputs,
                               const Attributes& attributes) {
  return add_node(named(what), op, inputs, attributes);
}

void OnnxGraph::give(Rank rank, const char* op, const Names& inputs, const Attributes& attributes) {
  values_.push_back({add_node(layer_->name, op, inputs, attributes), rank});
}

void OnnxGraph::pass() { values_.push_back(Value(read(0))); }

OnnxWindow onnx_window(const Layer& layer, std::int64_t in, std::int64_t out) {
  const std::int64_t reach = (out - 1) * layer.stride + layer.kernel;
  return {layer.padding, std::max<std::int64_t>(0, reach - in - layer.padding)};
}

Status write_onnx(const std::filesystem::path& path, const NetworkSpec& network, const ModelFile& file) {
  constexpr std::int64_t kFloatsMax = (std::int64_t{2} << 30) / 4 - (std::int64_t{1} << 20);
  if (network.layout.size() > kFloatsMax) {
    return invalid_argument(path.string() + ": " + std::to_string(network.layout.size()) +
                            " parameters, expected at most " + std::to_string(kFloatsMax) +
                            ": an ONNX file without others beside it cannot be larger than 2 GiB");
  }
  PACELINE_RETURN_IF_ERROR(check_no_loss_is_read(network).with_context(path.string()));
  onnx_proto::ModelProto model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("paceline");
  model.add_opset_import()->set_version(kOpset);
  describe(file.info, model);
  model.mutable_graph()->set_name(file.info.model);
  OnnxGraph graph(network, file.parameters, *model.mutable_graph());
  for (std::size_t i = 0; i < network.layers.size(); ++i) graph.add(i);
  for (const std::size_t output : outputs_of(network)) graph.give_out(output);
  PACELINE_RETURN_IF_ERROR(graph.check_names().with_context(path.string()));
  return write_file_atomically(path, model.SerializeAsString());
}

}  // namespace paceline
