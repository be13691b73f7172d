// The loops of every instruction set against conversions written from the formats' definitions, in double
// precision and with no trick of the loops: every binary16 and bfloat16 there is, every float that lies
// half-way between two of them and its neighbours, denormals, the ends, and random bits; at every offset and
// length.
#include "common/encode/conversions.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "common/random.h"

namespace paceline::conversions {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// The value of a format with a sign, `exponent` bits and `fraction` bits, from its definition.
double value_of(std::uint32_t bits, int exponent, int fraction) {
  const int bias = (1 << (exponent - 1)) - 1;
  const std::uint32_t f = bits & ((1u << fraction) - 1);
  const int e = static_cast<int>((bits >> fraction) & ((1u << exponent) - 1));
  const bool negative = ((bits >> (fraction + exponent)) & 1) != 0;
  if (e == (1 << exponent) - 1) {
    return f != 0 ? std::numeric_limits<double>::quiet_NaN() : negative ? -kInf : kInf;
  }
  const double magnitude =
      e == 0 ? std::ldexp(f, 1 - bias - fraction) : std::ldexp((1u << fraction) + f, e - bias - fraction);
  return negative ? -magnitude : magnitude;
}

// The nearest of the format's finite values, of two equally near the one whose last bit is 0. By bisection:
// the magnitudes ascend with their bits.
std::uint16_t nearest(float value, int exponent, int fraction) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const double magnitude = std::fabs(double{value});
  std::uint32_t low = 0;
  std::uint32_t high = (((1u << exponent) - 1) << fraction) - 1;  // the largest finite one
  if (magnitude >= value_of(high, exponent, fraction)) return static_cast<std::uint16_t>(sign | high);
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (value_of(middle, exponent, fraction) <= magnitude ? low : high) = middle;
  }
  const double below = magnitude - value_of(low, exponent, fraction);
  const double above = value_of(high, exponent, fraction) - magnitude;
  const bool up = above < below || (above == below && low % 2 == 1);
  return static_cast<std::uint16_t>(sign | (up ? high : low));
}

std::vector<const Conversions*> sets() {
  std::vector<const Conversions*> found;
  for (const auto set : {InstructionSet::kPlain, InstructionSet::kAvx2}) {
    if (const Conversions* each = conversions::find(set)) found.push_back(each);
  }
  return found;
}

// Every value of the format, what lies half-way to the next, and the floats beside both.
std::vector<float> critical_values(int exponent, int fraction) {
  std::vector<float> values;
  const std::uint32_t end = ((1u << exponent) - 1) << fraction;
  for (std::uint32_t bits = 0; bits < end; ++bits) {
    const double here = value_of(bits, exponent, fraction);
    const double next = bits + 1 < end ? value_of(bits + 1, exponent, fraction) : here * 1.0009765625;
    for (const double each : {here, here / 2 + next / 2}) {
      const auto value = static_cast<float>(each);
      for (const float around : {value, std::nextafter(value, kInf), std::nextafter(value, -kInf)}) {
        if (!std::isfinite(around)) continue;
        values.push_back(around);
        values.push_back(-around);
      }
    }
  }
  return values;
}

void add_random_bits(std::vector<float>& values) {
  CounterRandom random(1, Stream::kTest);
  for (int i = 0; i < 100'000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random.next_u64()));
    if (std::isfinite(value)) values.push_back(value);
  }
}

using To16 = void (*)(std::uint16_t*, const float*, std::int64_t);
using From16 = void (*)(float*, const std::uint16_t*, std::int64_t);

void check_rounding(To16 to, int exponent, int fraction, const std::vector<float>& values) {
  std::vector<std::uint16_t> got(values.size());
  to(got.data(), values.data(), std::ssize(values));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (got[i] == nearest(values[i], exponent, fraction)) continue;
    FAIL("of " << values[i] << ": " << got[i] << ", expected " << nearest(values[i], exponent, fraction));
  }
}

void check_all_values(To16 to, From16 from, int exponent, int fraction) {
  std::vector<std::uint16_t> all(1 << 16);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<float> values(all.size());
  from(values.data(), all.data(), std::ssize(all));
  std::vector<std::uint16_t> back(all.size());
  to(back.data(), values.data(), std::ssize(values));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double expected = value_of(all[i], exponent, fraction);
    if (std::isnan(expected)) {
      REQUIRE(std::isnan(values[i]));
      REQUIRE(std::isnan(value_of(back[i], exponent, fraction)));
    } else {
      REQUIRE(double{values[i]} == expected);
      REQUIRE(back[i] == all[i]);  // the sign of 0 and infinity too
    }
  }
}

TEST_CASE("fp16 is rounded to the nearest, ties to even, denormals included, and saturates") {
  std::vector<float> values = critical_values(5, 10);
  add_random_bits(values);
  for (const Conversions* c : sets()) {
    INFO(c->name);
    check_rounding(c->to_fp16, 5, 10, values);
    check_all_values(c->to_fp16, c->from_fp16, 5, 10);
  }
}

TEST_CASE("bf16 is rounded to the nearest, ties to even, and saturates") {
  std::vector<float> values = critical_values(8, 7);
  add_random_bits(values);
  for (const Conversions* c : sets()) {
    INFO(c->name);
    check_rounding(c->to_bf16, 8, 7, values);
    check_all_values(c->to_bf16, c->from_bf16, 8, 7);
  }
}

TEST_CASE("NaN stays NaN in bf16 wherever its bits lie") {
  const float nan = std::bit_cast<float>(0x7F800001u);
  for (const Conversions* c : sets()) {
    std::uint16_t bits = 0;
    c->to_bf16(&bits, &nan, 1);
    CHECK(std::isnan(value_of(bits, 8, 7)));
    c->to_fp16(&bits, &nan, 1);
    CHECK(std::isnan(value_of(bits, 5, 10)));
  }
}

TEST_CASE("int8 takes the nearest multiple of the scale, ties to even, at most 127") {
  std::vector<float> values;
  const float scale = 0.25F;  // exact products, so that a tie is one
  for (int q = -130; q <= 130; ++q) {
    for (const float part : {0.0F, 0.5F, 0.49999F, 0.50001F}) {
      values.push_back((static_cast<float>(q) + part) * scale);
    }
  }
  for (const Conversions* c : sets()) {
    INFO(c->name);
    std::vector<std::int8_t> got(values.size());
    c->to_int8(got.data(), values.data(), scale, std::ssize(values));
    std::vector<float> back(values.size());
    c->from_int8(back.data(), got.data(), scale, std::ssize(got));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double expected = std::clamp(std::nearbyint(double{values[i]} / double{scale}), -127.0, 127.0);
      REQUIRE(static_cast<double>(got[i]) == expected);
      REQUIRE(back[i] == static_cast<float>(got[i]) * scale);
    }
  }
}

// Every loop at every offset of a cache line and many lengths: the bits of the plain one, and nothing beside
// the range touched.
TEST_CASE("every instruction set gives the bits of the plain loops, at every offset") {
  const Conversions& plain = *conversions::find(InstructionSet::kPlain);
  CounterRandom random(2, Stream::kTest);
  for (const Conversions* c : sets()) {
    INFO(c->name);
    for (std::int64_t offset = 0; offset < 16; ++offset) {
      for (const std::int64_t n : {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 100, 257}) {
        std::vector<float> in(static_cast<std::size_t>(offset + n));
        for (float& value : in) {
          value = static_cast<float>(random.next_normal() * std::pow(10.0, random.next_double() * 12 - 8));
        }
        const float* const from = in.data() + offset;
        const auto size = static_cast<std::size_t>(offset + n + 16);
        for (const auto& [ours, theirs] :
             {std::pair{c->to_fp16, plain.to_fp16}, {c->to_bf16, plain.to_bf16}}) {
          std::vector<std::uint16_t> a(size, 0xABCD), b(size, 0xABCD);
          ours(a.data() + offset, from, n);
          theirs(b.data() + offset, from, n);
          REQUIRE(a == b);
        }
        std::vector<std::uint16_t> halves(size);
        for (auto& half : halves) half = static_cast<std::uint16_t>(random.next_below(0x7C00));
        for (const auto& [ours, theirs] :
             {std::pair{c->from_fp16, plain.from_fp16}, {c->from_bf16, plain.from_bf16}}) {
          std::vector<float> a(size, 5.0F), b(size, 5.0F);
          ours(a.data() + offset, halves.data() + offset, n);
          theirs(b.data() + offset, halves.data() + offset, n);
          REQUIRE(a == b);
        }
        const float largest = plain.largest(from, n);
        REQUIRE(c->largest(from, n) == largest);
        float expected = 0.0F;
        for (std::int64_t i = 0; i < n; ++i) expected = std::max(expected, std::fabs(from[i]));
        REQUIRE(largest == expected);
        const float scale = n == 0 ? 1.0F : largest / 127.0F;
        std::vector<std::int8_t> a(size, 99), b(size, 99);
        c->to_int8(a.data() + offset, from, scale, n);
        plain.to_int8(b.data() + offset, from, scale, n);
        REQUIRE(a == b);
        std::vector<float> x(size, 5.0F), y(size, 5.0F);
        c->from_int8(x.data() + offset, a.data() + offset, scale, n);
        plain.from_int8(y.data() + offset, a.data() + offset, scale, n);
        REQUIRE(x == y);
      }
    }
  }
}

}  // namespace
}  // namespace paceline::conversions
