// The manifest: what makes the shards' files one checkpoint. The authority writes it last, when every shard
// has said that its file is on disk; a checkpoint without one is an interrupted write and counts as nothing.
//
//   bytes      content
//   0..7       the magic "PACEMAN1" (the 1 is the format's number)
//   8..n-9     proto/manifest.proto
//   last 8     XXH3 (64 bit) of all before it, u64 little endian
//
// Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint_id.h"
#include "common/status.h"
#include "server/checkpoint/shard_file.h"

namespace paceline::server {

struct Manifest {
  CheckpointId id;
  Revision revision;
  std::int64_t decisions = 0;  // of every shard's file
  std::uint64_t layout_hash = 0;
  std::uint64_t fingerprint = 0;           // of the configuration, AgreedBy::kRun (common/config/load.h)
  std::vector<std::string> settings = {};  // and by key; empty: of an older version
  std::optional<std::uint64_t> data_fingerprint = {};  // of the nodes' data; none: of an older version
  std::vector<FileDigest> shards;  // by shard; their names follow from their numbers (folder.h)
  double seconds_trained = 0.0;    // in all generations so far
  std::string engine;              // the core's state (common/checkpoint/engine_state.h)
  std::string record;              // what the run's record goes on from

  bool operator==(const Manifest&) const = default;
};

// Larger ones are neither written nor read: decoding takes some 20 times as much memory. The largest cluster
// that can be configured, a million workers, has some 8 MB.
inline constexpr std::size_t kManifestBytesMax = std::size_t{16} << 20;
// Of more shards none is read; no run has more (cluster.shards).
inline constexpr std::size_t kManifestShardsMax = 64;

// Writes atomically. Errors: those of common/files/atomic_file.h; kResourceExhausted it is too large.
[[nodiscard]] Status write_manifest(const std::filesystem::path& path, const Manifest& manifest);

// Errors name the file, got and expected: kNotFound no such file; kInvalidArgument no manifest, or of another
// configuration (`fingerprint`) or checkpoint (`id`); kDataLoss truncated, grown, corrupted or contradicting
// itself; kResourceExhausted too large; kUnavailable it cannot be read.
Result<Manifest> read_manifest(const std::filesystem::path& path, CheckpointId id, std::uint64_t fingerprint);
// The same whatever its configuration is.
Result<Manifest> read_manifest(const std::filesystem::path& path, CheckpointId id);

}  // namespace paceline::server
