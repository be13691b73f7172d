#include "common/caffe/weights.h"

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "common/caffe/net_of.h"
#include "common/files/atomic_file.h"

namespace paceline::caffe {
namespace {

std::int64_t count_of(const BlobProto& blob) {
  return blob.data_size() > 0 ? blob.data_size() : blob.double_data_size();
}

// As the file says it: today's shape, or the four numbers of before.
std::vector<std::int64_t> dims_of(const BlobProto& blob) {
  if (blob.has_shape()) return {blob.shape().dim().begin(), blob.shape().dim().end()};
  return {blob.num(), blob.channels(), blob.height(), blob.width()};
}

// As a layer of ours has it: the four numbers of before stand for fewer in an inner product and a bias.
std::vector<std::int64_t> tensor_shape(const BlobProto& blob, bool is_weight, bool is_dense) {
  std::vector<std::int64_t> dims = dims_of(blob);
  const std::size_t wanted = !is_weight ? 1 : is_dense ? 2 : 4;
  while (dims.size() > wanted && dims.front() == 1) dims.erase(dims.begin());
  return dims;
}

Status add_blobs(const LayerParameter& layer, ModelFile& file) {
  const bool is_dense = layer.type() == "InnerProduct";
  if (!is_dense && layer.type() != "Convolution") return Status::ok();
  for (int i = 0; i < std::min(2, layer.blobs_size()); ++i) {
    const BlobProto& blob = layer.blobs(i);
    const std::string name = layer.name() + (i == 0 ? ".weight" : ".bias");
    std::vector<std::int64_t> shape = tensor_shape(blob, i == 0, is_dense);
    auto added = file.info.layout.add(name, std::move(shape));
    if (!added.is_ok()) return data_loss(added.status().message());
    const std::int64_t size = file.info.layout.tensors()[*added].size();
    if (size != count_of(blob)) {
      return data_loss(name + ": " + std::to_string(count_of(blob)) + " numbers, expected " +
                       std::to_string(size));
    }
    file.parameters.insert(file.parameters.end(), blob.data().begin(), blob.data().end());
    if (blob.data_size() > 0) continue;
    for (const double value : blob.double_data()) file.parameters.push_back(static_cast<float>(value));
  }
  return Status::ok();
}

// "conv1.weight" to "conv1" and whether it is the weight. Nothing of another name.
struct Named {
  std::string layer;
  bool is_weight;
};
Result<Named> named(const Tensor& tensor) {
  for (const auto& [ending, is_weight] : {std::pair(".weight", true), std::pair(".bias", false)}) {
    if (!tensor.name.ends_with(ending)) continue;
    return Named{tensor.name.substr(0, tensor.name.size() - std::string(ending).size()), is_weight};
  }
  return invalid_argument("tensor " + tensor.name + ", expected weights and biases alone");
}

}  // namespace

Result<ModelFile> read_weights(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream.is_open()) return not_found(path.string() + ": cannot be read, expected a caffemodel");
  NetParameter net;
  if (!net.ParseFromIstream(&stream)) {
    return data_loss(path.string() + ": cut, or no caffemodel, expected a binary NetParameter");
  }
  PACELINE_ASSIGN_OR_RETURN(const std::vector<FileLayer> layers,
                            file_layers(net, path.string(), [](const char*, int) { return 0; }));
  ModelFile file;
  file.info.model = net.name();
  for (const FileLayer& layer : layers) {
    PACELINE_RETURN_IF_ERROR(add_blobs(layer.layer, file).with_context(path.string()));
  }
  if (file.parameters.empty()) return data_loss(path.string() + ": no weights, expected a caffemodel");
  return file;
}

Status write_weights(const std::filesystem::path& path, const ModelInfo& info,
                     std::span<const float> parameters) {
  // Protobuf counts a message's bytes in 31 bits, of which names and shapes need some.
  constexpr std::int64_t kFloatsMax = (std::int64_t{2} << 30) / 4 - (std::int64_t{1} << 20);
  if (info.layout.size() > kFloatsMax) {
    return invalid_argument(path.string() + ": " + std::to_string(info.layout.size()) +
                            " parameters, expected at most " + std::to_string(kFloatsMax) +
                            ": a caffemodel cannot be larger than 2 GiB");
  }
  NetParameter net;
  net.set_name(info.model);
  std::map<std::string, LayerParameter*> layers;
  for (const Tensor& tensor : info.layout.tensors()) {
    PACELINE_ASSIGN_OR_RETURN(const Named name, named(tensor));
    LayerParameter*& layer = layers[name.layer];
    if (layer == nullptr) layer = net.add_layer();
    layer->set_name(name.layer);
    const std::size_t rank = tensor.shape.size();
    if (name.is_weight && rank != 2 && rank != 4) {
      return invalid_argument("tensor " + tensor.name + " of rank " + std::to_string(rank) +
                              ", expected a convolution's 4 or a dense layer's 2");
    }
    if (name.is_weight) layer->set_type(rank == 4 ? "Convolution" : "InnerProduct");
    BlobProto& blob = *layer->add_blobs();
    for (const std::int64_t dim : tensor.shape) blob.mutable_shape()->add_dim(dim);
    const auto values =
        parameters.subspan(static_cast<std::size_t>(tensor.offset), static_cast<std::size_t>(tensor.size()));
    blob.mutable_data()->Add(values.begin(), values.end());
  }
  return write_file_atomically(path, net.SerializeAsString());
}

}  // namespace paceline::caffe
