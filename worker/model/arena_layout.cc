#include "worker/model/arena_layout.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace paceline {
namespace {

std::size_t aligned(std::size_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

bool meet(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

// The lowest place of so many bytes between those that are taken, in order of their begins; they may overlap.
std::size_t lowest_place(const std::vector<std::pair<std::size_t, std::size_t>>& taken, std::size_t bytes) {
  std::size_t place = 0;
  for (const auto& [begin, end] : taken) {
    if (begin >= place + bytes) break;
    place = std::max(place, end);
  }
  return place;
}

}  // namespace

ArenaLayout lay_out(std::span<const Lifetime> buffers) {
  ArenaLayout layout{std::vector<std::size_t>(buffers.size())};
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  std::vector<std::pair<std::size_t, std::size_t>> taken;
  for (auto next = order.begin(); next != order.end(); ++next) {
    taken.clear();
    for (auto placed = order.begin(); placed != next; ++placed) {
      const Lifetime& other = buffers[*placed];
      const std::size_t begin = layout.offsets[*placed];
      if (meet(other, buffers[*next])) taken.emplace_back(begin, begin + aligned(other.bytes));
    }
    std::sort(taken.begin(), taken.end());
    const std::size_t bytes = aligned(buffers[*next].bytes);
    layout.offsets[*next] = lowest_place(taken, bytes);
    layout.bytes = std::max(layout.bytes, layout.offsets[*next] + bytes);
  }
  return layout;
}

}  // namespace paceline
