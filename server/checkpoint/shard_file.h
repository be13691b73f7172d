// One shard's part of a checkpoint as a file: its image (store/shard_image.h) at one decision.
//
//   bytes      content, all numbers little endian
//   0..7       the magic "PACESHD1" (the 1 is the format's number)
//   8..87      u64 layout hash, u64 fingerprint of the configuration, u64 generation, i64 version,
//              i64 revision, i64 decisions, i64 the optimizer's steps, i64 begin and i64 end of the range,
//              u32 shard, u32 which of the sections below there are (bits 0, 1, 2)
//   88..95     XXH3 (64 bit) of bytes 0..87
//   then       the parameters, float32 as they lie in memory; then, where there is one, each as long: the
//              optimizer's first vector (momentum, Adam's m), its second (Adam's v), delay compensation's
//              mean square. Each in chunks of 1 MiB, the last perhaps shorter; after each chunk the XXH3 of
//              it (u64), seeded with the header's and its number, so that a chunk of another place or file is
//              no better than a broken one. The file ends with the last.
//
// A reader takes nothing on trust: the header's checksum, whose file it is, and its size against the file's
// real size are checked before memory is allocated, every chunk before anybody sees it.
//
// Thread: any, each file by one at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "common/checkpoint_id.h"
#include "common/files/atomic_file.h"
#include "common/ids.h"
#include "common/params/partition.h"
#include "common/status.h"
#include "server/store/shard_image.h"

namespace paceline::server {

// Whose image a file holds, besides what the image knows.
struct ShardFileOwner {
  std::uint64_t layout_hash = 0;
  std::uint64_t fingerprint = 0;  // of the configuration (common/config/load.h)
  std::uint64_t generation = 1;
  ShardId shard;
  Range range;
  bool operator==(const ShardFileOwner&) const = default;
};

// Writes atomically (common/files/atomic_file.h, whose errors it returns: a full disk or an unwritable folder
// leaves nothing behind). Lets go of each block of the image as it is written, so that training copies fewer:
// afterwards `image` holds none of those that were.
Result<FileDigest> write_shard_file(const std::filesystem::path& path, const ShardFileOwner& owner,
                                    ShardImage&& image);
// The same into a file that is open already.
Result<FileDigest> write_shard_file(AtomicFile file, const ShardFileOwner& owner, ShardImage&& image);

// What a reader knows of the file it wants. A server that has not met its nodes yet knows no layout.
struct ShardFileWanted {
  CheckpointId id;
  std::uint64_t fingerprint = 0;
  ShardId shard;
  std::optional<std::uint64_t> layout_hash;
  std::optional<Range> range;
  std::optional<FileDigest> digest;
};

// What an intact file says of itself.
struct ShardFileInfo {
  ShardFileOwner owner;
  Version version;
  Revision revision;
  std::int64_t decisions = 0;
  FileDigest digest;
};

// Reads the whole file, in 1 MiB of memory, and says what it holds. Errors name the file, what is wrong, got
// and expected: kNotFound no such file; kInvalidArgument no shard file, or of another configuration,
// layout, shard, range, version or generation; kDataLoss truncated, grown, corrupted, contradicting itself or
// with another digest than wanted; kUnavailable it cannot be read.
Result<ShardFileInfo> verify_shard_file(const std::filesystem::path& path, const ShardFileWanted& wanted);

struct ShardFile {
  ShardFileInfo info;
  ShardImage image;
};
// The same, and gives the image out, its vectors cut into blocks of `block_floats` >= 1 floats.
Result<ShardFile> read_shard_file(const std::filesystem::path& path, const ShardFileWanted& wanted,
                                  std::int64_t block_floats);

}  // namespace paceline::server
