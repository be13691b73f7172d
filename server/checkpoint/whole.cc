#include "server/checkpoint/whole.h"

#include <cstdint>
#include <optional>
#include <span>

#include "server/checkpoint/folder.h"
#include "server/checkpoint/shard_file.h"

namespace paceline::server {

Result<WholeCheckpoint> read_whole_checkpoint(const std::filesystem::path& folder) {
  constexpr std::int64_t kBlockFloats = 1 << 20;
  const std::optional<CheckpointId> id = checkpoint_id_of(folder.filename().string());
  if (!id) {
    return invalid_argument(folder.string() +
                            ": no checkpoint's folder, expected a name as g1-v000000000118");
  }
  WholeCheckpoint whole;
  PACELINE_ASSIGN_OR_RETURN(whole.manifest, read_manifest(folder / "manifest", *id));
  for (std::uint32_t k = 0; k < whole.manifest.shards.size(); ++k) {
    const std::filesystem::path path = folder / ("shard-" + std::to_string(k));
    const ShardFileWanted wanted{*id, whole.manifest.fingerprint, ShardId(k), whole.manifest.layout_hash,
                                 {},  whole.manifest.shards[k]};
    const auto file = read_shard_file(path, wanted, kBlockFloats);
    if (file.status().code() == StatusCode::kNotFound) {
      return not_found(file.status().message() +
                       "; a checkpoint's files lie on the machines of its servers, copy them together");
    }
    PACELINE_RETURN_IF_ERROR(file.status());
    if (file->info.owner.range.begin != std::ssize(whole.parameters)) {
      return data_loss(path.string() + ": its parameters begin at " +
                       std::to_string(file->info.owner.range.begin) + ", expected " +
                       std::to_string(whole.parameters.size()));
    }
    const BlockRange& blocks = file->image.parameters;
    for (std::int64_t i = 0; i < blocks.block_count(); ++i) {
      const std::span<const float> block = blocks.block(i);
      whole.parameters.insert(whole.parameters.end(), block.begin(), block.end());
    }
  }
  return whole;
}

}  // namespace paceline::server
