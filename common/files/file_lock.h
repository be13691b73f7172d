// A file that one process at a time holds. The lock is the kernel's (flock), so it goes with its process
// however that ends; it is the file's, not the name's, so whoever holds it neither removes nor replaces it.
//
// Thread: any.
#pragma once

#include <sys/file.h>

#include <filesystem>
#include <memory>
#include <string>

#include "common/status.h"

namespace paceline {

struct FileLock {
  std::shared_ptr<const void> held;  // while this, or a copy of it, lives
  std::string warning;               // not empty: it could not be locked, and why; nothing guards it
};

// flock(2), or what stands in for it.
using LockFile = int (*)(int descriptor, int operation);

// Makes the file where it is missing, or where its holder removes it meanwhile; what is in it stays. Where the file
// system has no locks the caller may go on without one: `warning`. Errors: kFailedPrecondition somebody holds it;
// kUnavailable it cannot be opened.
Result<FileLock> lock_file(const std::filesystem::path& file, LockFile lock = ::flock);

}  // namespace paceline
