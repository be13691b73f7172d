// What the allocator is told: a program of its own, since it holds for the whole process.
#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>

#include "common/wire/memory.h"

namespace paceline::wire {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kHugePages = 4 * kMiB;  // two of them: what is marked begins and ends with a whole one

// Whether the system knows huge pages for those who ask, of which it may still give none. Asked of the system itself:
// in a chroot /sys need not be there.
bool offered() {
#ifdef MADV_HUGEPAGE
  void* const mapping = mmap(nullptr, kHugePages, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return false;
  const bool taken = madvise(mapping, kHugePages, MADV_HUGEPAGE) == 0;
  munmap(mapping, kHugePages);
  return taken;
#else
  return false;
#endif
}

// The flags of the mapping that holds `address`, as the system tells them: " hg " is marked for huge pages.
std::string flags_of(const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream maps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    if (words >> std::hex >> begin >> dash >> end && dash == '-') here = begin <= wanted && wanted < end;
    if (here && line.rfind("VmFlags:", 0) == 0) return line + " ";
  }
  return "";
}

// "AnonHugePages:  4096 kB", of the whole process; empty where the system does not say.
std::string huge_pages_held() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  for (std::string line; std::getline(rollup, line);) {
    if (line.rfind("AnonHugePages:", 0) == 0) return line;
  }
  return "";
}

// Whether the system promises half of its memory to one process that has none: not under strict accounting.
bool promised() {
  int strict = 2;
  std::ifstream("/proc/sys/vm/overcommit_memory") >> strict;
  return strict != 2;
}

struct Free {
  void operator()(void* block) const { std::free(block); }
};
using Block = std::unique_ptr<void, Free>;

TEST_CASE("what_is_allocated_after_asking_lies_in_memory_marked_for_huge_pages_again_and_again") {
  keep_freed_memory();
  if (!offered()) {
    CHECK(prefer_huge_pages(64 * kMiB) == 0);
    return;
  }
  const std::size_t marked = prefer_huge_pages(64 * kMiB);
  REQUIRE(marked > 60 * kMiB);
  for (int round = 0; round < 3; ++round) {  // freed memory stays, marked
    const Block frame(std::malloc(40 * kMiB));
    REQUIRE(frame != nullptr);
    const char* const middle = static_cast<const char*>(frame.get()) + 20 * kMiB;
    INFO(flags_of(middle));
    CHECK(flags_of(middle).find(" hg ") != std::string::npos);
  }
}

TEST_CASE("asking_for_less_than_a_huge_page_does_no_harm") {
  keep_freed_memory();
  CHECK(prefer_huge_pages(0) == 0);
  CHECK(prefer_huge_pages(1000) == 0);
}

TEST_CASE("who_asks_for_more_than_there_is_gets_half_of_it") {
  keep_freed_memory();
  const std::size_t marked = prefer_huge_pages(SIZE_MAX);
  if (offered() && promised()) {
    CHECK(marked <= half_of_memory());
    CHECK(marked + kHugePages >= half_of_memory());
  } else {
    CHECK(marked == 0);
  }
  CHECK(Block(std::malloc(kMiB)) != nullptr);
}

// The last: from here on there are none in this process.
TEST_CASE("who_does_without_huge_pages_gets_none_though_it_asks") {
  do_without_huge_pages();
  std::ifstream status("/proc/self/status");
  const std::string reported{std::istreambuf_iterator<char>(status), {}};
  if (reported.find("THP_enabled:") == std::string::npos) return;  // a system before Linux 5.0
  CHECK_THAT(reported, Catch::Contains("THP_enabled:\t0"));
  const std::string before = huge_pages_held();  // what has come so stays
  prefer_huge_pages(64 * kMiB);
  const Block block(std::malloc(40 * kMiB));
  REQUIRE(block != nullptr);
  std::memset(block.get(), 1, 40 * kMiB);
  CHECK(huge_pages_held() == before);
}

}  // namespace
}  // namespace paceline::wire
