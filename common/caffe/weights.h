// Caffe's weights (caffemodel: a binary NetParameter whose layers have blobs) as a model file's tensors, and
// the other way. A layer's first blob is "<layer>.weight", its second "<layer>.bias"; the numbers lie the same. The
// three of a BatchNorm are "<layer>.running_mean", ".running_var" and ".running_weight": Caffe's sums times 1 -
// moving_average_fraction.
#pragma once

#include <filesystem>
#include <span>

#include "common/params/model_file.h"
#include "common/status.h"

namespace paceline::caffe {

// Whether `path` is a caffemodel by its name.
inline bool is_weights(const std::filesystem::path& path) { return path.extension() == ".caffemodel"; }

// The tensors of convolutions, inner products, BatchNorm and Scale layers, of V2 and V1 files, in the file's order;
// other layers' blobs are left out. Errors, one line: kNotFound no such file; kDataLoss cut, or no caffemodel, or a
// blob whose numbers are not as many as its shape says.
Result<ModelFile> read_weights(const std::filesystem::path& path);

// Writes `parameters` (info.layout.size() floats) atomically. Errors: kInvalidArgument a tensor that is no
// tensor of one of these, a batch_norm with other tensors than Caffe's, or more than a caffemodel can hold (2 GiB), and
// nothing is written; those of writing.
[[nodiscard]] Status write_weights(const std::filesystem::path& path, const ModelInfo& info,
                                   std::span<const float> parameters);

}  // namespace paceline::caffe
