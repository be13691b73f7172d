// Where buffers lie in one arena, so that those which are never needed at the same time share its bytes: what is
// dead by the time another begins to live makes room for it.
//
// Greedy by size (Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020): the largest
// first, each at the lowest place that is free for as long as it lives. Example: 8 bytes live at 0 to 1, 4 at 1 to 2
// and 6 at 2 to 3. The 8 begin at 0; the 6 as well, as the 8 are dead by then; the 4 live beside both, so at 8. The
// arena has 12 bytes instead of 18.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace paceline {

struct Lifetime {
  std::size_t bytes = 0;
  std::size_t first = 0;  // the step that uses it first
  std::size_t last = 0;   // and the last one: at both it is alive
};

struct ArenaLayout {
  std::vector<std::size_t> offsets;  // by buffer, multiples of kArenaAlignment
  std::size_t bytes = 0;
};

// A line of the cache, which is what oneDNN aligns its own memory to.
inline constexpr std::size_t kArenaAlignment = 64;

// Any thread; a function of its argument alone.
ArenaLayout lay_out(std::span<const Lifetime> buffers);

}  // namespace paceline
