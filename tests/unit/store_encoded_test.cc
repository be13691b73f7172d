// A shard whose gradients come in fewer bytes.
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <limits>

#include "common/encode/encode.h"
#include "tests/unit/store_two_workers.h"

namespace paceline::server {
namespace {

// The values, encoded, as a payload that owns its bytes.
wire::Payload encoded_of(const Encoder& encoder, const std::vector<float>& values) {
  const std::size_t bytes = encoder.bytes_of(std::ssize(values));
  const auto owner = std::make_shared<std::vector<float>>(bytes / sizeof(float) + 1);
  auto* const data = reinterpret_cast<std::byte*>(owner->data());
  encoder.encode(values, {data, bytes});
  return {owner, data, bytes, encoder.encoding, std::ssize(values)};
}

Shard shard_taking(Encoding encoding) {
  ShardSettings settings = settings_of(kTwo);
  settings.gradient_encoding = encoding;
  return ready_shard(kTwo, 6, 10.0F, std::move(settings));
}

TEST_CASE("gradients in fewer bytes are decoded as they come, however they were cut") {
  const Encoding encoding = GENERATE(Encoding::kFp16, Encoding::kBf16, Encoding::kInt8, Encoding::kTopK);
  const Encoder encoder{encoding, 1.0};
  CAPTURE(static_cast<int>(encoding));
  Shard shard = shard_taking(encoding);
  for (std::int64_t clock = 0; clock < 5; ++clock) {  // the buffers are used again
    // Exact in all of them: seven binary digits, and a whole scale.
    const float g = 127.0F * static_cast<float>(1 << clock);
    REQUIRE(shard.push(push_of(kFirst, clock, 4, false), encoded_of(encoder, {g, 0})).is_ok());
    const auto whole = shard.push(push_of(kFirst, clock), encoded_of(encoder, {g, 0, -g, 0}));
    REQUIRE(whole.is_ok());
    REQUIRE(whole->has_value());
    const std::vector<float> before = values_of(shard.now().blocks);
    REQUIRE(shard.apply(decision_of(clock, {from(kFirst, clock)}, clock + 1)).is_ok());
    const std::vector<float> after = values_of(shard.now().blocks);
    for (std::size_t i = 0; i < 6; ++i) {
      const float gradient = i == 0 || i == 4 ? g : i == 2 ? -g : 0.0F;
      CHECK(after[i] == before[i] - gradient);
    }
  }
}

TEST_CASE(
    "of what a stage does not train its gradient is none, in any encoding, in buffers that are used again") {
  const Encoding encoding = GENERATE(Encoding::kFp16, Encoding::kBf16, Encoding::kInt8, Encoding::kTopK);
  const Encoder encoder{encoding, 1.0};
  CAPTURE(static_cast<int>(encoding));
  Shard shard = shard_taking(encoding);
  const auto zeros = [](std::int64_t floats) {
    return wire::Payload{nullptr, nullptr, 0, Encoding::kZero, floats};
  };
  REQUIRE(shard.push(push_of(kFirst, 0), encoded_of(encoder, std::vector<float>(6, 127.0F))).is_ok());
  REQUIRE(shard.apply(decision_of(0, {from(kFirst, 0)}, 1)).is_ok());
  CHECK_FALSE(shard.push(push_of(kFirst, 1, 4, false), zeros(2))->has_value());
  CHECK_FALSE(shard.push(push_of(kFirst, 1, 3, false), encoded_of(encoder, {127}))->has_value());
  CHECK(shard.push(push_of(kFirst, 1, 0, true), zeros(3))->has_value());
  REQUIRE(shard.apply(decision_of(1, {from(kFirst, 1)}, 2)).is_ok());
  CHECK(values_of(shard.now().blocks) == std::vector<float>{-117, -117, -117, -244, -117, -117});
  CHECK(shard.push(push_of(kFirst, 2, 0, true), zeros(7)).status().code() == StatusCode::kInvalidArgument);
  wire::Payload with_bytes = encoded_of(encoder, std::vector<float>(6, 1.0F));
  with_bytes.encoding = Encoding::kZero;
  CHECK(shard.push(push_of(kFirst, 2), with_bytes).status().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("pairs that cannot be are refused and leave no trace, and what is not finite is found") {
  Shard shard = shard_taking(Encoding::kTopK);
  const Encoder encoder{Encoding::kTopK, 1.0};
  wire::Payload wrong = encoded_of(encoder, {1, 2, 3, 4});
  std::memset(const_cast<std::byte*>(wrong.data), 0xFF, 8);
  const auto refused = shard.push(push_of(kFirst, 0, 2, false), wrong);
  CHECK(refused.status().code() == StatusCode::kInvalidArgument);
  CHECK(refused.status().message() ==
        "push from worker 0.0 stamped 0: pair 0: offset 4294967295, expected 0 to 3");
  CHECK(shard.gradients_held() == 0);
  const float inf = std::numeric_limits<float>::infinity();
  REQUIRE(shard.push(push_of(kFirst, 0, 4, false), encoded_of(encoder, {1, inf})).is_ok());
  const auto found = shard.push(push_of(kFirst, 0), encoded_of(encoder, {1, 2, 3, 4}));
  REQUIRE(found.is_ok());
  CHECK((*found)->fault == "gradient of dense.weight is infinite at [5]");
}

TEST_CASE("a gradient comes in the run's encoding or not at all") {
  Shard shard = shard_taking(Encoding::kFp16);
  const auto plain = shard.push(push_of(kFirst, 0), payload_of({1, 2, 3, 4, 5, 6}));
  CHECK(plain.status().message() == "push from worker 0.0 stamped 0: its floats come as fp32, expected fp16");
  Shard other = shard_of_six();
  const auto half = other.push(push_of(kFirst, 0), encoded_of({Encoding::kFp16}, {1, 2, 3, 4, 5, 6}));
  CHECK(half.status().message() == "push from worker 0.0 stamped 0: its floats come as fp16, expected fp32");
}

TEST_CASE("a push of nothing, to a shard of an empty range, comes in the run's encoding, too") {
  const std::array all{Encoding::kFp32, Encoding::kFp16, Encoding::kBf16, Encoding::kInt8, Encoding::kTopK};
  for (const Encoding expected : all) {
    for (const Encoding encoding : all) {
      CAPTURE(static_cast<int>(expected), static_cast<int>(encoding));
      ShardSettings settings = settings_of(kTwo);
      settings.gradient_encoding = expected;
      Shard shard(ShardId(1), {6, 6}, layout_of(6), std::move(settings));
      REQUIRE(shard.initialize({0, true}, {}).is_ok());
      const auto pushed = shard.push(push_of(kFirst, 0), {nullptr, nullptr, 0, encoding, 0});
      CHECK(pushed.is_ok() == (encoding == expected));
      CHECK(shard.gradients_held() == (encoding == expected ? 1U : 0U));
    }
  }
}

TEST_CASE("an encoded gradient that is half here when its node is lost is forgotten") {
  Shard shard = shard_taking(Encoding::kInt8);
  const Encoder encoder{Encoding::kInt8};
  REQUIRE(shard.push(push_of(kFirst, 0, 2, false), encoded_of(encoder, {9, 9, 9, 9})).is_ok());
  shard.drop_partial(NodeId(0));
  CHECK(shard.gradients_held() == 0);
  REQUIRE(shard.push(push_of(kSecond, 0), encoded_of(encoder, {127, 0, 0, 0, 0, 0})).is_ok());
  REQUIRE(shard.apply(decision_of(0, {from(kSecond, 0)}, 1)).is_ok());
  CHECK(values_of(shard.now().blocks) == std::vector<float>{-117, 10, 10, 10, 10, 10});
}

}  // namespace
}  // namespace paceline::server
