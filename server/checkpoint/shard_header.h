// The first 96 bytes of a shard's file (shard_file.h), and what follows from them: which vectors there are
// after it, and how long the file is.
//
// Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/status.h"
#include "server/checkpoint/shard_file.h"

namespace paceline::server {

// Bytes and floats of one chunk, without its checksum.
inline constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
inline constexpr std::int64_t kChunkFloats = kChunkBytes / sizeof(float);

struct ShardHeader {
  static constexpr std::size_t kBytes = 96;
  static constexpr std::uint32_t kFirst = 1, kSecond = 2, kMeanSquare = 4;  // sections

  ShardFileOwner owner;
  Version version;
  Revision revision;
  std::int64_t decisions = 0;
  std::int64_t steps = 0;
  std::uint32_t sections = 0;  // besides the parameters

  static ShardHeader of(const ShardFileOwner& owner, const ShardImage& image);

  // What the file begins with; the last 8 bytes are its checksum, which seeds those of the chunks.
  std::string bytes() const;
  // `bytes`: the first kBytes of a file, or all of a shorter one. Errors: kInvalidArgument another magic;
  // kDataLoss too short, the checksum is wrong, or numbers that no run has.
  static Result<ShardHeader> parse(std::span<const std::byte> bytes);

  // OK when this is what is wanted; else kInvalidArgument with got and expected. The digest is not looked at.
  [[nodiscard]] Status check(const ShardFileWanted& wanted) const;

  // Vectors in the file, each of owner.range.size() floats.
  std::uint64_t section_count() const;
  // The whole file, header included.
  std::uint64_t file_bytes() const;
};

}  // namespace paceline::server
