// Error feedback accounts for every gradient exactly, frames lie where the servers expect them, and buffers
// come back.
#include "worker/client/gradient_encoder.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "common/random.h"

namespace paceline {
namespace {

const std::vector<Range> kRanges{{0, 5}, {5, 5}, {5, 12}};  // one shard of nothing
constexpr std::int64_t kFloats = 12;
const ShardParts kWhole{Range{0, 5}, Range{0, 0}, Range{0, 7}};

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
  const auto frames = encoder.encode(gradient, kWhole);
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
    const std::vector<float> now = decoded(encoder.encode(gradient, kWhole));
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
    const std::vector<float> now = decoded(encoder.encode(gradient, kWhole));
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
    const auto frames = encoder.encode(gradient, {Range{0, 2}});
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
    const auto frames = encoder.encode(gradient, {Range{0, 4}});
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
  auto first = encoder.encode(ones, kWhole);
  const auto second = encoder.encode(twos, kWhole);
  CHECK(decoded(first) == ones);
  CHECK(decoded(second) == twos);
  const std::byte* const memory = first[0][0].payload.data;
  first.clear();
  CHECK(encoder.encode(ones, kWhole)[0][0].payload.data == memory);
}

// The frames of both, by shard, those of `more` after.
void append(std::vector<std::vector<EncodedFrame>>& frames, std::vector<std::vector<EncodedFrame>> more) {
  for (std::size_t k = 0; k < frames.size(); ++k) {
    for (EncodedFrame& frame : more[k]) frames[k].push_back(std::move(frame));
  }
}

TEST_CASE("a gradient encoded in parts is the one encoded at once, bit by bit, and owes the same") {
  const Encoding encoding = GENERATE(Encoding::kFp16, Encoding::kInt8, Encoding::kTopK);
  const auto fragments = GENERATE(std::vector<Range>(), std::vector<Range>{{0, 4}, {4, 5}, {5, kFloats}});
  GradientEncoder at_once({encoding, 0.4}, kRanges, 3, fragments);
  GradientEncoder in_parts({encoding, 0.4}, kRanges, 3, fragments);
  CounterRandom random(3, Stream::kTest);
  for (int step = 0; step < 20; ++step) {
    std::vector<float> gradient(kFloats, std::nanf(""));  // what is not final yet
    GradientFrames split(kRanges, 3, fragments);
    std::vector<std::vector<EncodedFrame>> frames(kRanges.size());
    for (std::int64_t i = kFloats; i-- > 0;) {
      gradient[static_cast<std::size_t>(i)] = static_cast<float>(random.next_normal());
      if (random.next_below(2) == 0) continue;
      if (const auto parts = split.extend(i)) append(frames, in_parts.encode(gradient, *parts));
    }
    append(frames, in_parts.encode(gradient, split.rest()));
    CHECK(decoded(frames) == decoded(at_once.encode(gradient, kWhole)));
    CHECK(std::ranges::equal(in_parts.residual(), at_once.residual()));
  }
}

// Whole numbers: every sum is exact.
TEST_CASE("what was withdrawn half-way was never sent: the residual is what it was") {
  GradientEncoder encoder({Encoding::kTopK, 0.3}, kRanges, 3);
  CounterRandom random(4, Stream::kTest);
  std::vector<float> computed(kFloats);
  std::vector<float> sent(kFloats);
  int withdrawn = 0;
  for (int step = 0; step < 200; ++step) {
    std::vector<float> gradient(kFloats);
    for (float& value : gradient) value = static_cast<float>(random.next_below(2001)) - 1000.0F;
    GradientFrames split(kRanges, 3);
    const auto from = static_cast<std::int64_t>(random.next_below(kFloats));
    std::vector<std::vector<EncodedFrame>> frames(kRanges.size());
    if (const auto parts = split.extend(from)) append(frames, encoder.encode(gradient, *parts));
    if (random.next_below(2) == 0) {
      std::fill(gradient.begin(), gradient.begin() + from, std::nanf(""));
      encoder.withdraw();
      ++withdrawn;
    } else {
      append(frames, encoder.encode(gradient, split.rest()));
      const std::vector<float> now = decoded(frames);
      for (std::size_t i = 0; i < now.size(); ++i) {
        computed[i] += gradient[i];
        sent[i] += now[i];
      }
    }
    if (encoder.residual().empty()) continue;
    for (std::size_t i = 0; i < sent.size(); ++i) REQUIRE(sent[i] + encoder.residual()[i] == computed[i]);
  }
  CHECK(withdrawn > 50);
}

TEST_CASE("a withdrawal leaves every bit of what is owed, whatever the values, beyond float32 too") {
  const Encoder encoder_of = GENERATE(Encoder{Encoding::kInt8}, Encoder{Encoding::kTopK, 0.4});
  const float factor = GENERATE(1.0F, 1e-30F, 3e38F);
  GradientEncoder encoder(encoder_of, kRanges, 3);
  GradientEncoder undisturbed(encoder_of, kRanges, 3);
  CounterRandom random(5, Stream::kTest);
  const auto draw = [&](float scale) {
    std::vector<float> gradient(kFloats);
    for (float& value : gradient) value = scale * static_cast<float>(2.0 * random.next_double() - 1.0);
    return gradient;
  };
  bool overflown = false;
  for (int step = 0; step < 50; ++step) {
    const std::vector<float> withdrawn = draw(factor);
    GradientFrames split(kRanges, 3);
    const auto parts = split.extend(static_cast<std::int64_t>(1 + random.next_below(5)));
    REQUIRE(parts);
    const auto left = encoder.encode(withdrawn, *parts);
    for (const EncodedFrame& frame : left[2]) {
      std::vector<float> reported(static_cast<std::size_t>(frame.payload.count()));
      REQUIRE(decode(encoder_of.encoding, frame.payload.bytes(), reported).is_ok());
      overflown = overflown ||
                  !std::all_of(reported.begin(), reported.end(), [](float v) { return std::isfinite(v); });
    }
    encoder.withdraw();
    const std::vector<float> gradient = draw(step % 2 == 0 ? 1.0F : factor);
    const auto expected = decoded(undisturbed.encode(gradient, kWhole));
    const auto sent = decoded(encoder.encode(gradient, kWhole));
    REQUIRE(std::memcmp(sent.data(), expected.data(), sent.size() * sizeof(float)) == 0);
    REQUIRE(std::memcmp(encoder.residual().data(), undisturbed.residual().data(), kFloats * sizeof(float)) ==
            0);
  }
  // int8 owes too little for that.
  CHECK(overflown == (factor > 1e38F && encoder_of.encoding == Encoding::kTopK));
}

}  // namespace
}  // namespace paceline
