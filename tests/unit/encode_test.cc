// Encoded frames against plain references: sizes, top-k by sorting, int8's scale, what is refused.
#include "common/encode/encode.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "common/encode/top_k.h"
#include "common/random.h"

namespace paceline {
namespace {

constexpr Encoding kAll[] = {Encoding::kFp32, Encoding::kFp16, Encoding::kBf16, Encoding::kInt8,
                             Encoding::kTopK};

// Aligned for float, as buffers of the daemons are.
class Bytes {
 public:
  explicit Bytes(std::size_t size) : floats_(size / sizeof(float) + 1), size_(size) {}
  std::span<std::byte> span() { return {reinterpret_cast<std::byte*>(floats_.data()), size_}; }

 private:
  std::vector<float> floats_;
  std::size_t size_;
};

std::vector<float> there_and_back(const Encoder& encoder, const std::vector<float>& in) {
  Bytes bytes(encoder.bytes_of(std::ssize(in)));
  encoder.encode(in, bytes.span());
  std::vector<float> out(in.size(), 99.0F);
  const Status status = decode(encoder.encoding, bytes.span(), out);
  INFO(status.message());
  REQUIRE(status.is_ok());
  return out;
}

std::vector<float> random_values(std::uint64_t seed, std::size_t n) {
  CounterRandom random(seed, Stream::kTest);
  std::vector<float> values(n);
  for (float& value : values) {
    // Equal magnitudes are common, so that ties are.
    value = random.next_below(4) == 0 ? static_cast<float>(random.next_below(5)) - 2.0F
                                      : static_cast<float>(random.next_normal());
  }
  return values;
}

// By sorting: the k largest magnitudes, of equal ones the first.
std::vector<float> top_k_by_sorting(const std::vector<float>& in, std::size_t k) {
  std::vector<std::size_t> order(in.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return std::fabs(in[a]) > std::fabs(in[b]); });
  std::vector<float> out(in.size(), 0.0F);
  for (std::size_t i = 0; i < k; ++i) out[order[i]] = in[order[i]];
  return out;
}

Status place(std::vector<std::pair<std::uint32_t, float>> pairs, std::size_t n) {
  Bytes bytes(pairs.size() * kTopKPairBytes);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    std::memcpy(bytes.span().data() + 8 * i, &pairs[i].first, 4);
    std::memcpy(bytes.span().data() + 8 * i + 4, &pairs[i].second, 4);
  }
  std::vector<float> out(n);
  return decode(Encoding::kTopK, bytes.span(), out);
}

TEST_CASE("an encoded frame has the size its encoding says, and no other fits") {
  for (const Encoding encoding : kAll) {
    for (const std::int64_t n : {0, 1, 2, 5, 1000}) {
      const Encoder encoder{encoding, 0.1};
      const std::size_t bytes = encoder.bytes_of(n);
      CAPTURE(static_cast<int>(encoding), n, bytes);
      CHECK(fits(encoding, n, bytes));
      CHECK_FALSE(fits(encoding, n, bytes + 1));
      if (bytes > 0) CHECK_FALSE(fits(encoding, n, bytes - 1));
      CHECK((encoding == Encoding::kTopK || !fits(encoding, n + 1, bytes)));
    }
  }
  CHECK(Encoder{Encoding::kInt8}.bytes_of(1000) == 1004);
  CHECK(Encoder{Encoding::kTopK, 0.01}.bytes_of(1000) == 80);
  CHECK_FALSE(fits(Encoding::kTopK, 1000, 0));
  CHECK_FALSE(fits(Encoding::kTopK, 1000, 8008));
  CHECK_FALSE(fits(Encoding::kInt8, 0, 4));
}

TEST_CASE("a share keeps ceil(share x n), and at least one") {
  CHECK(kept_of(0.01, 1000) == 10);
  CHECK(kept_of(0.0101, 1000) == 11);
  CHECK(kept_of(0.07, 100) == 7);  // 7.000000000000001 in binary
  CHECK(kept_of(1e-9, 1000) == 1);
  CHECK(kept_of(1.0, 1000) == 1000);
  CHECK(kept_of(0.5, 0) == 0);
}

TEST_CASE("top_k keeps what sorting would, of equal magnitudes the first") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<float> in = random_values(seed, 1 + seed * 7 % 500);
    for (const double share : {1e-6, 0.01, 0.1, 0.5, 0.9, 1.0}) {
      const auto k = static_cast<std::size_t>(kept_of(share, std::ssize(in)));
      CAPTURE(seed, share, in.size());
      REQUIRE(there_and_back({Encoding::kTopK, share}, in) == top_k_by_sorting(in, k));
    }
  }
  CHECK(there_and_back({Encoding::kTopK, 0.4}, {0.5F, -3, 0, 2, -2}) == std::vector<float>{0, -3, 0, 2, 0});
}

TEST_CASE("top_k tells magnitudes apart that differ in their last bit, denormals too") {
  const float least = std::numeric_limits<float>::denorm_min();
  const float one = std::nextafter(1.0F, 2.0F);
  CHECK(there_and_back({Encoding::kTopK, 0.25}, {1.0F, -1.0F, one, 1.0F}) ==
        std::vector<float>{0, 0, one, 0});
  CHECK(there_and_back({Encoding::kTopK, 0.5}, {least, -2 * least, 0, 0}) ==
        std::vector<float>{least, -2 * least, 0, 0});
}

TEST_CASE("a share of 1 loses nothing") {
  const std::vector<float> in = random_values(1, 1000);
  CHECK(there_and_back({Encoding::kTopK, 1.0}, in) == in);
}

TEST_CASE("pairs that do not ascend, repeat or lie outside are refused") {
  CHECK(place({{0, 1}, {3, 1}}, 4).is_ok());
  CHECK(place({{0, 1}, {4, 1}}, 4).message() == "pair 1: offset 4, expected 1 to 3");
  CHECK(place({{2, 1}, {1, 1}}, 4).message() == "pair 1: offset 1, expected 3 to 3");
  CHECK(place({{2, 1}, {2, 1}}, 4).message() == "pair 1: offset 2, expected 3 to 3");
  CHECK(place({{0xFFFFFFFFu, 1}}, 4).message() == "pair 0: offset 4294967295, expected 0 to 3");
  CHECK(place({{3, 1}, {3, 1}}, 4).code() == StatusCode::kInvalidArgument);
}

TEST_CASE("int8 says the largest value best and every value within half a step") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<float> in = random_values(seed, 500);
    const std::vector<float> out = there_and_back({Encoding::kInt8}, in);
    float largest = 0.0F;
    for (const float value : in) largest = std::max(largest, std::fabs(value));
    const double half_a_step = double{largest} / 127.0 / 2.0;
    for (std::size_t i = 0; i < in.size(); ++i) {
      REQUIRE(std::fabs(double{in[i]} - double{out[i]}) <= half_a_step * 1.00001);
    }
  }
}

TEST_CASE("int8 stands the ends: zeros, denormals, the largest float, nothing at all") {
  CHECK(there_and_back({Encoding::kInt8}, {}).empty());
  CHECK(there_and_back({Encoding::kInt8}, {0, 0, 0}) == std::vector<float>{0, 0, 0});
  const float least = std::numeric_limits<float>::denorm_min();
  for (const float value : there_and_back({Encoding::kInt8}, {least, -least}))
    CHECK(std::fabs(value) <= least);
  const float most = std::numeric_limits<float>::max();
  for (const float value : there_and_back({Encoding::kInt8}, {most, -most})) {
    CHECK(std::isfinite(value));
    CHECK(std::fabs(value) > 0.999F * most);
  }
}

TEST_CASE("a frame with a value that is not finite decodes to one that is not finite") {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Encoding encoding : kAll) {
    for (const float bad : {inf, -inf, nan}) {
      const std::vector<float> out = there_and_back({encoding, 1.0}, {1, bad, 2});
      CAPTURE(static_cast<int>(encoding), bad);
      CHECK(std::any_of(out.begin(), out.end(), [](float value) { return !std::isfinite(value); }));
    }
  }
}

TEST_CASE("fp16 and bf16 do not depend on where a vector is cut") {
  const std::vector<float> in = random_values(3, 101);
  for (const Encoding encoding : {Encoding::kFp16, Encoding::kBf16}) {
    const std::vector<float> whole = there_and_back({encoding}, in);
    for (std::size_t cut = 0; cut <= in.size(); cut += 13) {
      const auto at = in.begin() + static_cast<std::ptrdiff_t>(cut);
      std::vector<float> parts = there_and_back({encoding}, {in.begin(), at});
      const std::vector<float> rest = there_and_back({encoding}, {at, in.end()});
      parts.insert(parts.end(), rest.begin(), rest.end());
      REQUIRE(parts == whole);
    }
  }
}

}  // namespace
}  // namespace paceline
