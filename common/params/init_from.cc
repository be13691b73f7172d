#include "common/params/init_from.h"

#include <algorithm>
#include <cstddef>

#include "common/params/model_file.h"
#include "common/params/safetensors.h"

namespace paceline {
namespace {

std::string shape_of(const Tensor& tensor) {
  std::string text;
  for (const std::int64_t length : tensor.shape) text += (text.empty() ? "" : ", ") + std::to_string(length);
  return "[" + text + "]";
}

const Tensor* find(const Layout& layout, const std::string& name) {
  const auto& tensors = layout.tensors();
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

std::string list(const std::vector<std::string>& names) {
  constexpr std::size_t kNamed = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(kNamed, names.size()); ++i) text += (i == 0 ? "" : ", ") + names[i];
  return text + (names.size() > kNamed ? " and " + std::to_string(names.size() - kNamed) + " more" : "");
}

}  // namespace

Result<TensorsTaken> take_parameters(const std::filesystem::path& path, const Layout& layout,
                                     std::span<float> parameters) {
  if (!is_safetensors(path)) {
    const Result<ModelFile> file = read_model_file(path);
    if (file.status().code() == StatusCode::kInvalidArgument) {
      return invalid_argument(file.status().message() +
                              ", nor as a safetensors file; a caffemodel is one by its name's ending");
    }
    PACELINE_RETURN_IF_ERROR(file.status());
    return take_parameters(*file, path, layout, parameters);
  }
  PACELINE_ASSIGN_OR_RETURN(const Safetensors file, read_safetensors(path));
  PACELINE_ASSIGN_OR_RETURN(TensorsTaken tensors, take_parameters(file.model, path, layout, parameters));
  tensors.unused.insert(tensors.unused.end(), file.left_out.begin(), file.left_out.end());
  return tensors;
}

Result<TensorsTaken> take_parameters(const ModelFile& file, const std::filesystem::path& path,
                                     const Layout& layout, std::span<float> parameters) {
  TensorsTaken tensors;
  for (const Tensor& tensor : layout.tensors()) {
    const std::string name = tensor.name + " " + shape_of(tensor);
    const Tensor* const there = find(file.info.layout, tensor.name);
    if (there == nullptr || there->shape != tensor.shape) {
      tensors.kept.push_back(name + (there == nullptr ? "" : ", there " + shape_of(*there)));
      continue;
    }
    const auto from =
        std::span(file.parameters)
            .subspan(static_cast<std::size_t>(there->offset), static_cast<std::size_t>(there->size()));
    std::copy(from.begin(), from.end(), parameters.begin() + tensor.offset);
    tensors.taken.push_back(name);
  }
  for (const Tensor& there : file.info.layout.tensors()) {
    const Tensor* const ours = find(layout, there.name);
    if (ours == nullptr || ours->shape != there.shape) {
      tensors.unused.push_back(there.name + " " + shape_of(there));
    }
  }
  if (tensors.taken.empty()) {
    return invalid_argument(path.string() + ": no tensor of this " + file.info.model +
                            " fits the model, got " + list(tensors.unused) + ", expected " +
                            list(tensors.kept));
  }
  return tensors;
}

std::string to_string(const TensorsTaken& tensors) {
  const std::size_t all = tensors.taken.size() + tensors.kept.size();
  std::string text = std::to_string(tensors.taken.size()) + " of " + std::to_string(all) + " tensors fit";
  if (!tensors.kept.empty()) text += "; drawn from run.seed: " + list(tensors.kept);
  if (!tensors.unused.empty()) text += "; not used: " + list(tensors.unused);
  return text;
}

}  // namespace paceline
