#include "common/caffe/weights.h"

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "common/caffe/net_of.h"
#include "common/files/atomic_file.h"

namespace paceline::caffe {
namespace {

// As a layer of ours has it: the four numbers of before stand for fewer in an inner product and a bias.
std::vector<std::int64_t> tensor_shape(const BlobProto& blob, std::size_t rank) {
  std::vector<std::int64_t> dims = dims_of(blob);
  while (dims.size() > rank && dims.front() == 1) dims.erase(dims.begin());
  return dims;
}

// Adds one tensor; `scale` is what its numbers are multiplied by.
Status add_tensor(const std::string& name, const BlobProto& blob, std::size_t rank, double scale,
                  ModelFile& file) {
  auto added = file.info.layout.add(name, tensor_shape(blob, rank));
  if (!added.is_ok()) return data_loss(added.status().message());
  const std::int64_t size = file.info.layout.tensors()[*added].size();
  const std::vector<float> numbers = numbers_of(blob);
  if (size != std::ssize(numbers)) {
    return data_loss(name + ": " + std::to_string(numbers.size()) + " numbers, expected " +
                     std::to_string(size));
  }
  for (const float number : numbers) {
    file.parameters.push_back(static_cast<float>(static_cast<double>(number) * scale));
  }
  return Status::ok();
}

// Caffe's three blobs are sums in which a measurement counts 1 when it comes, and `fraction` of what it did at the
// next; a buffer of ours has 1 - fraction of that.
constexpr const char* kStatistics[] = {".running_mean", ".running_var", ".running_weight"};

Status add_statistics(const LayerParameter& layer, ModelFile& file) {
  const double share = 1.0 - decimal(layer.batch_norm_param().moving_average_fraction());
  for (int i = 0; i < std::min(3, layer.blobs_size()); ++i) {
    PACELINE_RETURN_IF_ERROR(add_tensor(layer.name() + kStatistics[i], layer.blobs(i), 1, share, file));
  }
  return Status::ok();
}

Status add_blobs(const LayerParameter& layer, ModelFile& file) {
  if (layer.type() == "BatchNorm") return add_statistics(layer, file);
  const std::map<std::string, std::size_t> ranks = {{"Convolution", 4}, {"InnerProduct", 2}, {"Scale", 1}};
  const auto rank = ranks.find(layer.type());
  if (rank == ranks.end()) return Status::ok();
  for (int i = 0; i < std::min(2, layer.blobs_size()); ++i) {
    PACELINE_RETURN_IF_ERROR(add_tensor(layer.name() + (i == 0 ? ".weight" : ".bias"), layer.blobs(i),
                                        i == 0 ? rank->second : 1, 1.0, file));
  }
  return Status::ok();
}

// "conv1.weight" to "conv1" and what it is there. Nothing of another name.
struct Named {
  std::string layer;
  std::string part;
};
Result<Named> named(const Tensor& tensor) {
  for (const char* const ending : {".weight", ".bias", kStatistics[0], kStatistics[1], kStatistics[2]}) {
    if (!tensor.name.ends_with(ending)) continue;
    return Named{tensor.name.substr(0, tensor.name.size() - std::string(ending).size()), ending};
  }
  return invalid_argument("tensor " + tensor.name +
                          ", expected weights, biases and running statistics alone");
}

// What a tensor makes of the layer that it is in: its type, and what its numbers are multiplied by.
Result<double> describe(const Tensor& tensor, const Named& name, LayerParameter& layer) {
  if (tensor.traits.role == TensorRole::kBuffer) {
    const double share = tensor.traits.lr_factor;
    layer.set_type("BatchNorm");
    layer.mutable_batch_norm_param()->set_moving_average_fraction(static_cast<float>(1.0 - share));
    return 1.0 / share;
  }
  const std::size_t rank = tensor.shape.size();
  if (name.part == ".weight" && rank != 1 && rank != 2 && rank != 4) {
    return invalid_argument("tensor " + tensor.name + " of rank " + std::to_string(rank) +
                            ", expected a convolution's 4, a dense layer's 2 or a scale's 1");
  }
  if (name.part == ".weight")
    layer.set_type(rank == 4 ? "Convolution" : rank == 2 ? "InnerProduct" : "Scale");
  if (name.part == ".bias" && layer.type() == "Scale") layer.mutable_scale_param()->set_bias_term(true);
  return 1.0;
}

}  // namespace

std::vector<std::int64_t> dims_of(const BlobProto& blob) {
  if (blob.has_shape()) return {blob.shape().dim().begin(), blob.shape().dim().end()};
  return {blob.num(), blob.channels(), blob.height(), blob.width()};
}

std::vector<float> numbers_of(const BlobProto& blob) {
  if (blob.data_size() > 0) return {blob.data().begin(), blob.data().end()};
  std::vector<float> numbers;
  for (const double value : blob.double_data()) numbers.push_back(static_cast<float>(value));
  return numbers;
}

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
    PACELINE_ASSIGN_OR_RETURN(const double scale, describe(tensor, name, *layer));
    BlobProto& blob = *layer->add_blobs();
    for (const std::int64_t dim : tensor.shape) blob.mutable_shape()->add_dim(dim);
    const auto values =
        parameters.subspan(static_cast<std::size_t>(tensor.offset), static_cast<std::size_t>(tensor.size()));
    blob.mutable_data()->Add(values.begin(), values.end());
    if (scale == 1.0) continue;
    for (float& value : *blob.mutable_data()) value = static_cast<float>(value * scale);
  }
  for (const auto& [name, layer] : layers) {
    if (layer->type() != "BatchNorm" || layer->blobs_size() == 3) continue;
    return invalid_argument("layer " + name + ": a batch_norm with " + std::to_string(layer->blobs_size()) +
                            " tensors, expected affine: false and debias: true, which Caffe's has");
  }
  return write_file_atomically(path, net.SerializeAsString());
}

}  // namespace paceline::caffe
