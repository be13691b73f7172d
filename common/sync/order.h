// Putting what came in any order into worker order, in time proportional to how much it is. The order of
// arrival is a matter of timing, and neither grants nor sums of floats may depend on it; with 100,000 workers
// a sort by comparison would be a good part of what a step costs.
//
// A radix sort from the lowest digit (Knuth, The Art of Computer Programming 3, 5.2.5): each pass counts how
// often each digit occurs and lays the items out by it, keeping the order among equal ones. Digits in which
// all keys agree are left out: of {node, thread} with one thread per node, all but those of the node. Six
// passes at most, however many there are.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/ids.h"

namespace paceline::sync {

constexpr std::uint64_t key_of(Rank rank) { return rank.value; }
constexpr std::uint64_t key_of(WorkerId worker) {
  return (std::uint64_t{worker.node.value} << 32) | worker.thread;
}

// Orders `items` by key_of(id(item)), which follows the ids' own order. Keys are distinct.
template <typename Item, typename Id>
void put_into_worker_order(std::vector<Item>& items, Id id) {
  constexpr std::size_t kFew = 2048;  // fewer are sorted sooner than the digits are counted
  constexpr unsigned kDigitBits = 11;
  constexpr std::uint64_t kDigitMask = (std::uint64_t{1} << kDigitBits) - 1;
  if (items.size() < kFew) {
    std::sort(items.begin(), items.end(), [&](const Item& a, const Item& b) { return id(a) < id(b); });
    return;
  }
  std::uint64_t differ = 0;
  for (const Item& item : items) differ |= key_of(id(item)) ^ key_of(id(items.front()));
  std::vector<Item> laid_out(items.size());
  for (unsigned shift = 0; shift < 64 && (differ >> shift) != 0; shift += kDigitBits) {
    if (((differ >> shift) & kDigitMask) == 0) continue;
    std::array<std::size_t, kDigitMask + 1> place{};
    for (const Item& item : items) ++place[(key_of(id(item)) >> shift) & kDigitMask];
    std::size_t sum = 0;
    for (std::size_t& p : place) {
      const std::size_t count = p;
      p = sum;
      sum += count;
    }
    for (const Item& item : items) laid_out[place[(key_of(id(item)) >> shift) & kDigitMask]++] = item;
    items.swap(laid_out);
  }
}

}  // namespace paceline::sync
