// A gradient leaves as it becomes final: which frames, when, and what that hid.
#include "worker/client/gradient_sender.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "common/random.h"

namespace paceline {
namespace {

using namespace std::chrono_literals;

// "1:[4,6) 0:[8,10)".
std::string text_of(const std::optional<ShardParts>& parts) {
  std::string text;
  for (std::size_t k = parts ? parts->size() : 0; k-- > 0;) {
    if (!(*parts)[k]) continue;
    const Range part = *(*parts)[k];
    text += (text.empty() ? "" : " ") + std::to_string(k) + ":[" + std::to_string(part.begin) + "," +
            std::to_string(part.end) + ")";
  }
  return text;
}

TEST_CASE("frames leave when they are whole, from the end on, but for the lowest of each shard") {
  GradientFrames frames({{0, 10}, {10, 16}}, 4);
  for (int gradient = 0; gradient < 2; ++gradient) {
    CHECK(text_of(frames.extend(15)).empty());
    CHECK(text_of(frames.extend(9)) == "1:[4,6)");
    CHECK(text_of(frames.extend(8)) == "0:[8,10)");
    CHECK(text_of(frames.extend(8)).empty());
    CHECK(text_of(frames.extend(3)) == "0:[4,8)");
    CHECK(text_of(frames.extend(0)).empty());
    CHECK(text_of(frames.rest()) == "1:[0,4) 0:[0,4)");
  }
}

// Borders at 5 and 9, of which no frame is a multiple, and one in a tail.
TEST_CASE("frames are cut where fragments are, so that each leaves as soon as it is final") {
  const std::vector<Range> fragments{{0, 5}, {5, 9}, {9, 12}, {12, 16}};
  GradientFrames frames({{0, 10}, {10, 16}}, 4, fragments);
  CHECK(text_of(frames.extend(12)) == "1:[4,6)");  // the border is at 2 of the last four
  CHECK(text_of(frames.extend(9)) == "0:[9,10)");
  CHECK(text_of(frames.extend(5)) == "0:[5,9)");
  CHECK(text_of(frames.rest()) == "1:[0,4) 0:[0,5)");
  const std::vector<std::int64_t> borders = borders_in({0, 10}, fragments, 4);
  CHECK(borders == std::vector<std::int64_t>{5, 9});
  CHECK((frame_begin(10, 4, borders) == 9 && frame_begin(9, 4, borders) == 8 &&
         frame_begin(8, 4, borders) == 5));
}

TEST_CASE(
    "a gradient that is final only at its end leaves at once, and so does one of a frame for each shard") {
  GradientFrames several({{0, 10}, {10, 10}, {10, 16}}, 4);
  CHECK(text_of(several.rest()) == "2:[0,6) 1:[0,0) 0:[0,10)");
  GradientFrames one({{0, 10}, {10, 16}}, 10);
  CHECK_FALSE(one.extend(3));
  CHECK_FALSE(one.extend(0));
  CHECK(text_of(one.rest()) == "1:[0,6) 0:[0,10)");
}

TEST_CASE("of a large lowest frame only a tail stays, and a shard of no more than that stays whole") {
  GradientFrames frames({{0, 30000}, {30000, 70000}, {70000, 71024}, {71024, 72049}}, 32768);
  CHECK(text_of(frames.extend(72049)).empty());
  CHECK(text_of(frames.extend(72048)) == "3:[1024,1025)");
  CHECK(text_of(frames.extend(70000)).empty());
  CHECK(text_of(frames.extend(31025)) == "1:[32768,40000)");
  CHECK(text_of(frames.extend(31024)) == "1:[1024,32768)");
  CHECK(text_of(frames.extend(0)) == "0:[1024,30000)");
  CHECK(text_of(frames.rest()) == "3:[0,1024) 2:[0,1024) 1:[0,1024) 0:[0,1024)");
  CHECK(frame_begin(40000, 32768) == 32768);
  CHECK(frame_begin(32768, 32768) == 1024);
  CHECK(frame_begin(1024, 32768) == 0);
  CHECK(frame_begin(1024, 512) == 512);
  CHECK(frame_begin(0, 512) == 0);
}

TEST_CASE("what has left of a gradient is what is to be withdrawn, on those shards alone") {
  GradientFrames frames({{0, 10}, {10, 16}}, 4);
  CHECK_FALSE(frames.withdraw());
  REQUIRE(frames.extend(10));
  CHECK(frames.withdraw() == std::vector<bool>{false, true});
  CHECK_FALSE(frames.withdraw());
  CHECK(text_of(frames.rest()) == "1:[0,6) 0:[0,10)");
}

TEST_CASE("whatever the cut, every float leaves once, none before it is final, in whole frames") {
  CounterRandom random(1, Stream::kTest);
  for (int round = 0; round < 500; ++round) {
    const std::uint64_t unit = random.next_below(4) == 0 ? 500 : 1;  // frames larger than a tail, too
    const auto size = static_cast<std::int64_t>(1 + random.next_below(60 * unit));
    const auto frame = static_cast<std::int64_t>(1 + random.next_below(9 * unit));
    const auto shards = partition(size, 1 + static_cast<std::uint32_t>(random.next_below(4)));
    GradientFrames frames(shards, frame);
    std::vector<int> left(static_cast<std::size_t>(size));
    std::vector<std::int64_t> ends;
    for (const Range& shard : shards) ends.push_back(shard.size());
    const auto leave = [&](const ShardParts& parts, std::int64_t final_from, bool rest) {
      for (std::size_t k = 0; k < parts.size(); ++k) {
        REQUIRE((parts[k] || !rest));
        if (!parts[k]) continue;
        REQUIRE((parts[k]->end == ends[k] &&
                 (parts[k]->begin % frame == 0 || parts[k]->begin == std::min(frame, kTailFloats))));
        REQUIRE((parts[k]->begin == 0) == rest);
        REQUIRE(shards[k].begin + parts[k]->begin >= final_from);
        ends[k] = parts[k]->begin;
        for (std::int64_t i = parts[k]->begin; i < parts[k]->end; ++i) {
          ++left[static_cast<std::size_t>(shards[k].begin + i)];
        }
      }
    };
    std::int64_t begin = size;
    while (begin > 0) {
      begin -= static_cast<std::int64_t>(random.next_below(static_cast<std::uint64_t>(begin) + 1));
      if (const auto parts = frames.extend(begin)) leave(*parts, begin, false);
      if (random.next_below(4) == 0) break;
    }
    leave(frames.rest(), 0, true);
    REQUIRE(std::all_of(left.begin(), left.end(), [](int times) { return times == 1; }));
  }
}

// ---- what is hidden

Ticks g_now;  // what time it is; the sender asks from any thread, here from this one
Ticks now() { return g_now; }

struct Sending {
  GradientSender sender;
  std::shared_ptr<const std::vector<float>> values = std::make_shared<const std::vector<float>>(10);
  Contribution gradient{WorkerId(0, 0), Clock(3), 0, Version(1), Revision(2), values};

  explicit Sending(std::optional<Encoder> encoder = {}) : sender({{0, 10}}, 2, encoder, now) {
    g_now = Ticks(1'000'000'000);
  }
  static void pass(std::chrono::nanoseconds d) { g_now = g_now + d; }
};

TEST_CASE("hidden is when something was on its way, not the pauses between, and not what came after") {
  Sending s;
  CHECK(s.sender.pushed_early(g_now).hidden == 0ns);
  auto first = s.sender.early(s.gradient, 8);
  REQUIRE(first);
  s.pass(3ms);
  first.reset();  // its last byte has left
  s.pass(10ms);   // nothing is on its way
  auto second = s.sender.early(s.gradient, 6);
  s.pass(2ms);
  auto third = s.sender.early(s.gradient, 4);  // both are
  s.pass(2ms);
  second.reset();
  s.pass(1ms);
  const Ticks computed = g_now;
  s.pass(50ms);
  third.reset();
  CHECK(s.sender.pushed_early(computed).hidden == 8ms);
  CHECK(s.sender.pushed_early(computed).bytes == 6 * 4);
  (void)s.sender.rest(s.gradient);
  CHECK(s.sender.pushed_early(g_now).hidden == 0ns);
  CHECK(s.sender.pushed_early(g_now).bytes == 0);
}

TEST_CASE("a push in parts has left when the last of them has") {
  Sending s;
  auto early = s.sender.early(s.gradient, 6);
  REQUIRE(early);
  const std::weak_ptr<const void> whole = early->whole;
  auto rest = s.sender.rest(s.gradient);
  CHECK(rest.whole == whole.lock());
  SECTION("the rest later") {
    early.reset();
    CHECK_FALSE(whole.expired());
    rest = {};
  }
  SECTION("the early part later") {
    rest = {};
    CHECK_FALSE(whole.expired());
    early.reset();
  }
  CHECK(whole.expired());
  const std::weak_ptr<const void> next = s.sender.rest(s.gradient).whole;
  CHECK(next.expired());
}

TEST_CASE("a withdrawn gradient holds nothing any more, and the next one begins anew") {
  const bool encoded = GENERATE(false, true);
  Sending s(encoded ? std::optional(Encoder{Encoding::kInt8}) : std::nullopt);
  CHECK_FALSE(s.sender.withdraw());
  auto early = s.sender.early(s.gradient, 6);
  REQUIRE(early);
  CHECK(early->push.clock == Clock(3));
  const std::weak_ptr<const void> whole = early->whole;
  CHECK(s.sender.withdraw() == std::vector<bool>{true});
  CHECK_FALSE(whole.expired());
  early.reset();
  CHECK(whole.expired());
  CHECK(text_of(s.sender.rest(s.gradient).floats) == "0:[0,10)");
}

}  // namespace
}  // namespace paceline
