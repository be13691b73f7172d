// The parameters of a whole checkpoint, put together from its shards' files, for whoever looks at a model and
// trains nothing.
//
// Thread: any.
#pragma once

#include <filesystem>
#include <vector>

#include "common/status.h"
#include "server/checkpoint/manifest.h"

namespace paceline::server {

struct WholeCheckpoint {
  Manifest manifest;
  std::vector<float> parameters;  // in the layout's order
};

// `folder`: RUN/checkpoint/g1-v000000000118, with all shards' files. Every byte of them is read and checked.
// Errors: those of read_manifest() and read_shard_file(); kInvalidArgument the folder's name is no
// checkpoint's; kDataLoss its files do not make one vector.
Result<WholeCheckpoint> read_whole_checkpoint(const std::filesystem::path& folder);

}  // namespace paceline::server
