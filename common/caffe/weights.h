// Caffe's weights (caffemodel: a binary NetParameter whose layers have blobs) as a model file's tensors, and
// the other way. A layer's first blob is "<layer>.weight", its second "<layer>.bias"; the numbers lie the same.
#pragma once

#include <filesystem>
#include <span>

#include "common/params/model_file.h"
#include "common/status.h"

namespace paceline::caffe {

// Whether `path` is a caffemodel by its name.
inline bool is_weights(const std::filesystem::path& path) { return path.extension() == ".caffemodel"; }

// The tensors of convolutions and inner products, of V2 and V1 files, in the file's order; other layers' blobs
// are left out. Errors, one line: kNotFound no such file; kDataLoss cut, or no caffemodel, or a blob whose
// numbers are not as many as its shape says.
Result<ModelFile> read_weights(const std::filesystem::path& path);

// Writes `parameters` (info.layout.size() floats) atomically. Errors: kInvalidArgument a tensor that is no
// weight or bias of a convolution or a dense layer, or more than a caffemodel can hold (2 GiB), and nothing is written;
// those of writing.
[[nodiscard]] Status write_weights(const std::filesystem::path& path, const ModelInfo& info,
                                   std::span<const float> parameters);

}  // namespace paceline::caffe
