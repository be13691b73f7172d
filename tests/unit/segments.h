// Segments of shared memory for tests, what only looks like one, and what a process holds of them.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "common/wire/shared_memory.h"

// Since Linux 5.1.
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace paceline::wire {

constexpr std::int64_t kSegmentBytes = std::int64_t{4} << 20;

inline std::shared_ptr<SharedSegment> segment(std::int64_t bytes = kSegmentBytes) {
  auto made = SharedSegment::create(bytes);
  INFO(made.status().message());
  REQUIRE(made.is_ok());
  return std::move(made).value();
}

// A child process that does what the test says and is killed.
template <typename Do>
pid_t child(Do&& what) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    what();
    ::_exit(0);
  }
  REQUIRE(pid > 0);
  return pid;
}

// What calls itself a segment of ours: without a page.
inline int sealed(int seals, std::int64_t bytes) {
  const int file = ::memfd_create("paceline", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(::ftruncate(file, bytes) == 0);
  REQUIRE(::fcntl(file, F_ADD_SEALS, seals) == 0);
  return file;
}

inline std::int64_t bytes_in_use(int file) {
  struct stat about = {};
  REQUIRE(::fstat(file, &about) == 0);
  return about.st_blocks * 512;
}

// How many segments, its own and others', this process has mapped, and how many files it has open.
inline std::ptrdiff_t segments_mapped() {
  std::ifstream maps("/proc/self/maps");
  std::ptrdiff_t found = 0;
  for (std::string line; std::getline(maps, line);) found += line.find("/memfd:paceline") != line.npos;
  return found;
}
inline std::ptrdiff_t files_open() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

}  // namespace paceline::wire
