// Small checkpoints for tests: images whose floats say where they belong, whose they are, and their files'
// bytes.
#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/files/atomic_file.h"
#include "common/random.h"
#include "server/checkpoint/folder.h"
#include "tests/unit/store_fixture.h"

namespace paceline::server {

inline constexpr std::uint64_t kTestFingerprint = 0xf00d;
inline constexpr std::size_t kTestFileMax = std::size_t{1} << 26;

// In blocks that fit nothing else.
inline BlockRange random_blocks(std::uint64_t key, std::int64_t floats) {
  CounterRandom random(3, Stream::kTest, key);
  std::vector<float> values(static_cast<std::size_t>(floats));
  for (float& value : values) value = static_cast<float>(random.next_double()) - 0.5F;
  BlockPool pool(floats < 1000 ? 3 : 999, 0);
  BlockRange blocks(pool, floats);
  blocks.copy_from(0, values, pool);
  return blocks;
}

// Of `floats` parameters with all the vectors that there can be, or `sections` 0: the
// parameters alone.
inline ShardImage image_of(std::int64_t floats, std::int64_t version = 118, int sections = 3) {
  ShardImage image{Version(version), Revision(4 * version), 2 * version, random_blocks(1, floats), {}, {}};
  image.optimizer.steps = version;
  if (sections > 0) image.optimizer.first = random_blocks(2, floats);
  if (sections > 1) image.optimizer.second = random_blocks(3, floats);
  if (sections > 2) image.mean_square = random_blocks(4, floats);
  return image;
}

inline ShardFileOwner owner_of(std::int64_t floats, std::uint32_t shard = 0, std::uint64_t generation = 1) {
  return {0x1a707, kTestFingerprint, generation, ShardId(shard), {100, 100 + floats}};
}

// All that is known of image_of(floats) of owner_of(floats).
inline ShardFileWanted wanted_of(std::int64_t floats) {
  return {{1, Version(118)}, kTestFingerprint, ShardId(0), 0x1a707, Range{100, 100 + floats}, {}};
}

inline bool same_bits(const BlockRange& a, const BlockRange& b) {
  const std::vector<float> left = values_of(a);
  const std::vector<float> right = values_of(b);
  return left.size() == right.size() &&
         (left.empty() || std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0);
}

inline bool same_image(const ShardImage& a, const ShardImage& b) {
  return a.version == b.version && a.revision == b.revision && a.decisions == b.decisions &&
         a.optimizer.steps == b.optimizer.steps && same_bits(a.parameters, b.parameters) &&
         same_bits(a.optimizer.first, b.optimizer.first) &&
         same_bits(a.optimizer.second, b.optimizer.second) && same_bits(a.mean_square, b.mean_square);
}

// As it is, without the care of write_file_atomically(): there are thousands of them.
inline void put_file(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

inline std::string bytes_of(const std::filesystem::path& file) {
  Result<std::string> bytes = read_file(file, kTestFileMax);
  PACELINE_ASSERT(bytes.is_ok(), bytes.status().message());
  return *bytes;
}

}  // namespace paceline::server
