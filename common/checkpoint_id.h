// Which checkpoint: the version it holds and the generation of the run that wrote it. A run is generation 1
// and one more with each resume, so what a resumed run writes is newer than what the run before it had
// written, of whatever version that was: it began from an older one because the newest was not intact.
// And what tells one file of it from another: what servers say of their files to each other.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "common/clock.h"

namespace paceline {

struct CheckpointId {
  std::uint64_t generation = 1;
  Version version{};
  auto operator<=>(const CheckpointId&) const = default;  // the newest is the largest
};

// "version 118 of generation 1".
inline std::string to_string(CheckpointId id) {
  return "version " + to_string(id.version) + " of generation " + std::to_string(id.generation);
}

// What tells one shard file's content from another's: the manifest has it of every shard's.
struct FileDigest {
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;  // of the header's checksum and all chunks' (server/checkpoint/shard_file.h)
  bool operator==(const FileDigest&) const = default;
};

}  // namespace paceline
