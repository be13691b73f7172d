// Error feedback accounts for every gradient exactly, frames lie where the servers expect them, and buffers
// come back.
#include "worker/client/gradient_encoder.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "common/random.h"

namespace paceline {
namespace {

const std::vector<Range> kRanges{{0, 5}, {5, 5}, {5, 12}};  // one shard of nothing
constexpr std::int64_t kFloats = 12;

// What the servers make of the frames: the whole vector.
std::vector<float> decoded(const std::vector<std::vector<EncodedFrame>>& frames) {
  std::vector<float> flat(kFloats);
  for (std::size_t shard = 0; shard < frames.size(); ++shard) {
    std::int64_t end = kRanges[shard].size();
    for (const EncodedFrame& frame : frames[shard]) {
      REQUIRE(frame.offset + frame.payload.count() == end);
      end = frame.offset;
      const std::span<float> place =
          std::span<float>(flat).subspan(static_cast<std::size_t>(kRanges[shard].begin + frame.offset),
                                         static_cast<std::size_t>(frame.payload.count()));
      REQUIRE(fits(frame.payload.encoding, frame.payload.count(), frame.payload.size));
      REQUIRE(decode(frame.payload.encoding, frame.payload.bytes(), place).is_ok());
    }
    REQUIRE(end == 0);
  }
  return flat;
}

TEST_CASE("a gradient is cut as the servers' blocks are, and an empty range has its frame") {
  GradientEncoder encoder({Encoding::kFp16}, kRanges, 3);
  const std::vector<float> gradient{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const auto frames = encoder.encode(gradient);
  REQUIRE(frames.size() == 3);
  REQUIRE(frames[0].size() == 2);
  CHECK(frames[0][0].offset == 3);  // on the grid: the highest is the shorter one
  REQUIRE(frames[1].size() == 1);
  CHECK(frames[1][0].payload.empty());
  CHECK(frames[2].size() == 3);
  CHECK(decoded(frames) == gradient);
  CHECK(encoder.residual().empty());  // what only rounds owes nothing
}

// Whole numbers, and for int8 frames whose largest magnitude is 127 steps of a power of two: every sum is
// exact.
TEST_CASE("what was sent and what is still owed are together what was computed, exactly") {
  const double share = GENERATE(0.01, 0.3, 1.0);
  GradientEncoder encoder({Encoding::kTopK, share}, kRanges, 4);
  CounterRandom random(1, Stream::kTest);
  std::vector<float> computed(kFloats);
  std::vector<float> sent(kFloats);
  for (int step = 0; step < 200; ++step) {
    std::vector<float> gradient(kFloats);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] = static_cast<float>(random.next_below(2001)) - 1000.0F;
      computed[i] += gradient[i];
    }
    const std::vector<float> now = decoded(encoder.encode(gradient));
    for (std::size_t i = 0; i < now.size(); ++i) {
      sent[i] += now[i];
      REQUIRE(sent[i] + encoder.residual()[i] == computed[i]);
      if (share == 1.0) REQUIRE(encoder.residual()[i] == 0.0F);
    }
  }
}

TEST_CASE("int8 owes after every gradient exactly what its bytes left out") {
  GradientEncoder encoder({Encoding::kInt8}, kRanges, 4);
  CounterRandom random(2, Stream::kTest);
  std::vector<float> owed(kFloats);
  double computed = 0.0;
  double sent = 0.0;
  for (int step = 0; step < 200; ++step) {
    std::vector<float> gradient(kFloats);
    for (float& value : gradient) value = static_cast<float>(random.next_normal());
    const std::vector<float> now = decoded(encoder.encode(gradient));
    for (std::size_t i = 0; i < now.size(); ++i) {
      // The same operations in the same order: the same bits.
      const float wanted = owed[i] + gradient[i];
      owed[i] = wanted - now[i];
      REQUIRE(encoder.residual()[i] == owed[i]);
      REQUIRE(std::fabs(owed[i]) < 0.1F);  // it does not pile up
      computed += double{gradient[i]};
      sent += double{now[i]};
    }
  }
  double rest = 0.0;
  for (const float value : owed) rest += double{value};
  CHECK(std::fabs(computed - sent - rest) < 1e-3);
}

TEST_CASE("what is left out comes later") {
  GradientEncoder encoder({Encoding::kTopK, 0.5}, {{0, 2}}, 2);
  const auto pair = [&](std::vector<float> gradient) {
    std::vector<float> out(2);
    const auto frames = encoder.encode(gradient);
    REQUIRE(decode(Encoding::kTopK, frames[0][0].payload.bytes(), out).is_ok());
    return out;
  };
  CHECK(pair({3, 2}) == std::vector<float>{3, 0});
  CHECK(pair({1, 1}) == std::vector<float>{0, 3});
  CHECK(pair({0, 0}) == std::vector<float>{1, 0});
}

TEST_CASE("a sum beyond float32 is sent as it is, and its frame owes nothing any more") {
  const auto [encoder_of, before, most] = GENERATE(table<Encoder, float, float>(
      {{Encoder{Encoding::kTopK, 0.5}, 2e38F, 3e38F}, {Encoder{Encoding::kInt8}, 1e36F, 3.4e38F}}));
  GradientEncoder encoder(encoder_of, {{0, 4}}, 2);
  const auto sent = [&](std::vector<float> gradient) {
    std::vector<float> out(4);
    const auto frames = encoder.encode(gradient);
    for (std::size_t i = 0; i < 2; ++i) {
      REQUIRE(decode(encoder_of.encoding, frames[0][1 - i].payload.bytes(), std::span(out).subspan(2 * i, 2))
                  .is_ok());
    }
    return out;
  };
  sent({most, before, 127, 0.25F});
  REQUIRE(encoder.residual()[1] == before);
  REQUIRE(encoder.residual()[3] == 0.25F);
  const auto overflown = sent({0, most, 0, 0});
  CHECK_FALSE(std::isfinite(overflown[1]));
  CHECK(encoder.residual()[0] == 0.0F);
  CHECK(encoder.residual()[1] == 0.0F);
  // The other frame has lost nothing, and this one works again.
  CHECK(overflown[3] + encoder.residual()[3] == 0.25F);
  const auto next = sent({127, 0, 0, 0});
  CHECK(next[0] == 127.0F);
  CHECK(next[1] == 0.0F);
}

TEST_CASE("a gradient's bytes stay as they are while somebody holds them, and their memory is used again") {
  GradientEncoder encoder({Encoding::kFp16}, kRanges, 4);
  const std::vector<float> ones(kFloats, 1.0F);
  const std::vector<float> twos(kFloats, 2.0F);
  auto first = encoder.encode(ones);
  const auto second = encoder.encode(twos);
  CHECK(decoded(first) == ones);
  CHECK(decoded(second) == twos);
  const std::byte* const memory = first[0][0].payload.data;
  first.clear();
  CHECK(encoder.encode(ones)[0][0].payload.data == memory);
}

}  // namespace
}  // namespace paceline
