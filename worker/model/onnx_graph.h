// The built-in network as an ONNX graph: for evaluating, so dropout is nothing and batch norms go by their running
// statistics. Operators are those of opset 13, as runtimes from 2021 on have them. Each kind of layer writes its nodes
// (worker/model/layers/<kind>/onnx.cc).
//
// Values are images [N, C, H, W] or vectors [N, n]; a layer's value bears its name. A tensor of the layout is an
// initializer of its own name; what is beside it, as the axes of an operator, is called "<layer>.<what>".
//
// Thread: one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/network/network.h"
#include "common/params/model_file.h"
#include "common/status.h"

namespace paceline {

namespace onnx_proto {
class GraphProto;
class NodeProto;
}  // namespace onnx_proto

class OnnxGraph {
 public:
  using Attribute = std::pair<const char*, std::variant<std::int64_t, float, std::vector<std::int64_t>>>;
  using Names = std::vector<std::string>;
  using Attributes = std::vector<Attribute>;
  enum class Rank { kImage, kVector };

  // All outlive it. `parameters`: network.layout.size() floats.
  OnnxGraph(const NetworkSpec& network, std::span<const float> parameters, onnx_proto::GraphProto& graph);

  // Writes the nodes of network.layers[index], after those of all before.
  void add(std::size_t index);
  // Declares a value of network.shape_of(value) as what the graph gives, as vectors.
  void give_out(std::size_t value);

  // ---- for the layer that is added: what it reads, by the number of its input
  std::string image(std::size_t input = 0);
  std::string vector(std::size_t input = 0);
  // All of them, alike: vectors where one is.
  Names inputs();
  // What inputs() are.
  Rank rank() const;

  // ---- initializers
  // A tensor of the layout, with these values instead of the model's where there are some.
  std::string tensor(const ParameterRange& range, std::span<const float> instead = {});
  std::span<const float> values(const ParameterRange& range) const;
  std::string floats(const char* what, const std::vector<std::int64_t>& shape, std::span<const float> values);
  std::string integers(const char* what, const std::vector<std::int64_t>& values);

  // ---- nodes
  // A value between two nodes of the layer, "<layer>.<what>".
  std::string compute(const char* what, const char* op, const Names& inputs,
                      const Attributes& attributes = {});
  // The layer's own value.
  void give(Rank rank, const char* op, const Names& inputs, const Attributes& attributes = {});
  // The layer's value is that of its first input.
  void pass();

  // Errors: kInvalidArgument two initializers or values have one name, as where a layer is called as what another
  // needs.
  Status check_names() const;

 private:
  struct Value {
    std::string name;
    Rank rank;
  };

  std::string named(const std::string& what) const;
  void take_name(const std::string& name);
  void add_initializer(const std::string& name, const std::vector<std::int64_t>& shape, int type,
                       std::span<const std::byte> bytes);
  std::string add_node(const std::string& output, const char* op, const Names& inputs,
                       const Attributes& attributes);
  const Value& read(std::size_t input) const;

  const NetworkSpec& network_;
  const std::span<const float> parameters_;
  onnx_proto::GraphProto& graph_;
  const Layer* layer_ = nullptr;
  std::vector<Value> values_;      // by number of the value: the image, then the layers'
  std::set<std::string> written_;  // the names of initializers and values
  std::set<std::string> shared_;   // of these, what several may ask for
  std::string taken_twice_;        // the first name that is; empty: none
};

// The window of a pool: how far it reaches before and after an image of `in` along one axis, of which it gives `out`.
struct OnnxWindow {
  std::int64_t before;
  std::int64_t after;
};
OnnxWindow onnx_window(const Layer& layer, std::int64_t in, std::int64_t out);

// Writes the network with a model's parameters as an ONNX file: input "input", [N, C, H, W], outputs the logits, or of
// a network of losses what these read first; N is free. Atomically. Errors: kInvalidArgument a layer that reads a loss,
// or a file larger than the 2 GiB that protobuf can have; those of writing.
[[nodiscard]] Status write_onnx(const std::filesystem::path& path, const NetworkSpec& network,
                                const ModelFile& model);

}  // namespace paceline
