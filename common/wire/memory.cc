// glibc's three switches; all are needed (M_MMAP_THRESHOLD alone did not help).
#include "common/wire/memory.h"

#include <malloc.h>

namespace paceline::wire {

void keep_freed_memory() {
#ifdef M_MMAP_MAX
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_ARENA_MAX, 1);
#endif
}

}  // namespace paceline::wire
