// The final model as a file: a header that says what it is and the parameters as float32, both under a
// checksum.
//
//   bytes            content
//   0..7             the magic "PACELIN1" (the 1 is the format's number)
//   8..11            H, the length of the header text in bytes, u32 little endian
//   12..15           CRC32C of the header text, u32 little endian
//   16..16+H-1       the header, JSON in UTF-8:
//                    {"model": "cifar_cnn_small", "version": 400, "revision": 400,
//                     "layout_hash": "0123456789abcdef", "floats": 545098, "data_crc32c": 305419896,
//                     "tensors": [{"name": "conv1.weight", "shape": [32, 3, 3, 3], "offset": 0}, ...]}
//                    A tensor whose traits are not the usual ones (layout.h) has "role" ("weight", "bias",
//                    "norm" or "buffer"), "lr_factor" and "decay_factor" beside them, and "may_be_unused" where that is
//                    true.
//   up to 64 k       zero bytes, so that the parameters begin at a multiple of 64
//   then             `floats` float32, little endian, in the layout's order; the file ends with them
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/params/layout.h"
#include "common/status.h"

namespace paceline {

// What the header says about the parameters.
struct ModelInfo {
  std::string model;  // train.model, e.g. "cifar_cnn_small"; "custom model" of a loop of the user's own
  Version version;
  Revision revision;
  Layout layout;
};

struct ModelFile {
  ModelInfo info;
  std::vector<float> parameters;  // info.layout.size() floats
};

// Writes atomically (common/files/atomic_file.h, whose errors it returns). The parameters are
// info.layout.size() floats, in pieces or as one.
[[nodiscard]] Status write_model_file(const std::filesystem::path& path, const ModelInfo& info,
                                      std::span<const std::span<const float>> pieces);
[[nodiscard]] Status write_model_file(const std::filesystem::path& path, const ModelInfo& info,
                                      std::span<const float> parameters);

// Reads and checks everything above. Errors name the file and what was expected: kNotFound no such file;
// kInvalidArgument no model file (magic); kDataLoss truncated, too long, wrong checksum, or a header that
// contradicts itself.
Result<ModelFile> read_model_file(const std::filesystem::path& path);

// OK when the file's layout is the one expected; else kInvalidArgument naming both hashes and the first
// tensor that differs. `file`: for the message.
[[nodiscard]] Status require_layout(const ModelFile& model, const Layout& expected,
                                    const std::filesystem::path& file);

}  // namespace paceline
