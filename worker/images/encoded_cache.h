// Encoded files in memory, once for all processes of a machine ("Image classification at supercomputer scale",
// section 4: decoded they would take ten times as much). It lies in a file of /dev/shm that all of a user's
// processes with the same pictures and the same data.cache map. What fits is kept from its first reading on and
// never replaced: with a new order in every epoch no picture is worth more than another.
//
// A file of that name that is another user's, or that others may write, is not used; what its places say is
// checked before it is read.
//
// The file goes with the last process that uses it; what a killed one has left, the next opening of any cache
// removes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/status.h"

namespace paceline {

// Thread: every member from any, in several processes at the same time.
class EncodedCache {
 public:
  // For `images` pictures, which `key` tells from all others. `bytes_max`: of files, with 16 more for each
  // picture; no more than half of what /dev/shm has free is used. Errors: kUnavailable, kResourceExhausted there
  // is no /dev/shm or no room in it, as the system says, or the file there is not this user's alone.
  static Result<std::shared_ptr<EncodedCache>> open(std::uint64_t key, std::int64_t images,
                                                    std::int64_t bytes_max);
  ~EncodedCache();
  EncodedCache(const EncodedCache&) = delete;
  EncodedCache& operator=(const EncodedCache&) = delete;

  // The file of `image`, if it is there. Valid while this lives.
  std::optional<std::span<const std::uint8_t>> find(std::int64_t image) const;
  // Keeps a copy for all, where there is room and nobody else does.
  void keep(std::int64_t image, std::span<const std::uint8_t> file);

  // Of files kept by any process.
  std::int64_t bytes() const;

 private:
  struct Shared;
  explicit EncodedCache(std::unique_ptr<Shared> shared);
  std::unique_ptr<Shared> shared_;
};

}  // namespace paceline
