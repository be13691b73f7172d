// Beginning with a model that was trained before (train.init_from): of its file those tensors are taken that
// the new model has, too, by name and shape. The rest keeps the values that it has.
//
// Thread: any.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/params/layout.h"
#include "common/params/model_file.h"
#include "common/status.h"

namespace paceline {

// Names with shapes, as "dense2.weight [10, 128]".
struct TensorsTaken {
  std::vector<std::string> taken;
  std::vector<std::string> kept;    // the model's that the file does not have, or has in another shape
  std::vector<std::string> unused;  // the file's that were not taken
};

// Overwrites what of `parameters` (layout.size() floats, of `layout`) `file` has, which was read from `path`.
// Errors: kInvalidArgument no tensor fits, naming the first of both.
Result<TensorsTaken> take_parameters(const ModelFile& file, const std::filesystem::path& path,
                                     const Layout& layout, std::span<float> parameters);

// The same from a model file, or from safetensors. Errors: those of reading it, too.
Result<TensorsTaken> take_parameters(const std::filesystem::path& path, const Layout& layout,
                                     std::span<float> parameters);

// A line for a log: how many fitted, and which did not; at most eight of each kind are named.
std::string to_string(const TensorsTaken& taken);

}  // namespace paceline
