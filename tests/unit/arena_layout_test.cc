// Buffers that live at other times share an arena, those that meet never do.
#include "worker/model/arena_layout.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "common/random.h"

using namespace paceline;

namespace {

// Of all pairs that are alive at one step, none shares a byte.
bool lie_apart(const std::vector<Lifetime>& buffers, const ArenaLayout& layout) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const Lifetime &a = buffers[i], &b = buffers[j];
      const bool meet = a.first <= b.last && b.first <= a.last && a.bytes > 0 && b.bytes > 0;
      const std::size_t from_a = layout.offsets[i], from_b = layout.offsets[j];
      if (meet && from_a < from_b + b.bytes && from_b < from_a + a.bytes) return false;
    }
  }
  return true;
}

std::size_t whole_lines(std::size_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

// What is alive at the worst step: no arena can be smaller.
std::size_t most_at_once(const std::vector<Lifetime>& buffers) {
  std::size_t most = 0;
  for (const Lifetime& at : buffers) {
    std::size_t alive = 0;
    for (const Lifetime& each : buffers) {
      if (each.first <= at.first && at.first <= each.last) alive += whole_lines(each.bytes);
    }
    most = std::max(most, alive);
  }
  return most;
}

}  // namespace

TEST_CASE("what_is_dead_makes_room_for_what_comes") {
  const std::vector<Lifetime> buffers = {{512, 0, 1}, {256, 1, 2}, {384, 2, 3}};
  const ArenaLayout layout = lay_out(buffers);
  CHECK(layout.offsets == std::vector<std::size_t>{0, 512, 0});
  CHECK(layout.bytes == 768);
  CHECK(lay_out({}).bytes == 0);
}

// A layer's activations are read by the backward pass in the opposite order, and its differences live for a step.
TEST_CASE("the_differences_of_a_chain_of_layers_take_no_room_of_their_own_but_two") {
  std::vector<Lifetime> buffers;
  constexpr std::size_t kLayers = 20, kBytes = 1 << 20;
  for (std::size_t i = 0; i < kLayers; ++i) {
    buffers.push_back({kBytes, i, 2 * kLayers - i});
    buffers.push_back({kBytes, 2 * kLayers - i, 2 * kLayers - i + 1});
  }
  const ArenaLayout layout = lay_out(buffers);
  CHECK(lie_apart(buffers, layout));
  CHECK(layout.bytes <= (kLayers + 2) * kBytes);
}

TEST_CASE("buffers_that_meet_lie_apart_on_lines_of_the_cache_and_little_room_is_lost") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    CounterRandom random(seed, Stream::kTest);
    std::vector<Lifetime> buffers;
    for (int i = 0; i < 60; ++i) {
      const std::size_t first = random.next_below(40);
      buffers.push_back({std::size_t{random.next_below(6400)}, first, first + random.next_below(10)});
    }
    const ArenaLayout layout = lay_out(buffers);
    REQUIRE(lie_apart(buffers, layout));
    CHECK(std::ranges::all_of(layout.offsets, [](std::size_t at) { return at % kArenaAlignment == 0; }));
    const std::size_t most = most_at_once(buffers);
    CHECK(layout.bytes >= most);
    CHECK(static_cast<double>(layout.bytes) <= 1.3 * static_cast<double>(most));
  }
}
