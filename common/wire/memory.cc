// glibc's three switches; all are needed (M_MMAP_THRESHOLD alone did not help). And the heap's own mapping,
// which is marked while it is one free block: what is freed stays at the top of the heap, marked.
#include "common/wire/memory.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace paceline::wire {
namespace {

constexpr std::uintptr_t kHugePage = std::uintptr_t{2} << 20;  // x86-64 and 4 KiB kernels of arm64

}  // namespace

std::size_t half_of_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && bytes > 0 ? static_cast<std::size_t>(pages) / 2 * static_cast<std::size_t>(bytes) : 0;
}

void keep_freed_memory() {
#ifdef M_MMAP_MAX
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_ARENA_MAX, 1);
#endif
}

std::size_t prefer_huge_pages(std::size_t bytes) {
#ifdef MADV_HUGEPAGE
  bytes = std::min(bytes, half_of_memory());
  void* const block = std::malloc(bytes);
  if (block == nullptr) return 0;
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  const std::uintptr_t begin = (address + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t end = (address + bytes) / kHugePage * kHugePage;
  const bool marked = begin < end && madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE) == 0;
  std::free(block);
  return marked ? end - begin : 0;
#else
  static_cast<void>(bytes);
  return 0;
#endif
}

void do_without_huge_pages() {
#ifdef PR_SET_THP_DISABLE
  (void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
#endif
}

}  // namespace paceline::wire
