// Models as safetensors, the format of Hugging Face's package of that name (version 0.8): what PyTorch, JAX and NumPy
// read and write without running anybody's code.
//
//   bytes       content
//   0..7        H, the length of the header in bytes, u64 little endian
//   8..8+H-1    the header, JSON in UTF-8, filled up with spaces:
//               {"__metadata__": {"format": "pt", "model": "cifar_cnn_small", "version": "400"},
//                "conv1.weight": {"dtype": "F32", "shape": [32, 3, 3, 3], "data_offsets": [0, 3456]}, ...}
//   then        the tensors, row-major, little endian; offsets are counted from here, and the last ends the file
//
// Written are float32 alone. Read are float32 and bfloat16, as float32.
//
// Thread: any.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/params/model_file.h"
#include "common/status.h"

namespace paceline {

// Whether the file at `path` is one: by its name, or by how it begins, with a header's length and '{'.
bool is_safetensors(const std::filesystem::path& path);

// Writes `parameters` (info.layout.size() floats) atomically. Errors: kInvalidArgument a name that
// the header cannot have: no UTF-8, or "__metadata__"; those of writing.
[[nodiscard]] Status write_safetensors(const std::filesystem::path& path, const ModelInfo& info,
                                       std::span<const float> parameters);

struct Safetensors {
  ModelFile model;  // its tensors in the order of their bytes, with the usual traits
  std::vector<std::string>
      left_out;  // those of other types, as batch norm's counters: "bn1.num_batches_tracked I64 []"
};

// Errors name the file and what was expected: kNotFound no such file; kDataLoss it is cut or too long, or its header
// cannot be read or contradicts itself.
Result<Safetensors> read_safetensors(const std::filesystem::path& path);

}  // namespace paceline
