// Which sums a mesh makes: the same bits on every rank, over sockets and in shared memory, coded or not.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <future>
#include <limits>
#include <memory_resource>

#include "common/schedule/first_adds.h"
#include "common/schedule/planners.h"
#include "tests/unit/mesh_ranks.h"
#include "worker/mesh/mesh.h"

namespace paceline::mesh {
namespace {

using schedule::Algorithm;
using schedule::Program;

std::vector<float> any_numbers(std::uint32_t rank, std::int64_t floats) {
  std::vector<float> values(static_cast<std::size_t>(floats));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = 1.0F / static_cast<float>(1 + (i * 31 + rank * 7) % 1000);
  return values;
}

// Whose sums of four have an exact bf16.
std::vector<float> small_numbers(std::uint32_t rank, std::int64_t floats) {
  std::vector<float> values = whole_numbers(rank, floats);
  for (float& value : values) value = std::fmod(value, 64.0F);
  return values;
}

// Of a vector in which nothing is yet.
Status reduce_begun(Mesh& mesh, const Program& program, std::span<float> vector,
                    const std::vector<float>& own, std::uint32_t number) {
  const schedule::FirstAdds first = schedule::first_adds(program.rows, program.floats);
  std::fill(vector.begin(), vector.end(), std::numeric_limits<float>::quiet_NaN());
  const auto make = [&own](std::int64_t at, std::span<float> out) {
    std::copy_n(own.begin() + at, out.size(), out.begin());
  };
  return mesh.reduce(program, vector, number, kWithin, {&first, make});
}

TEST_CASE("every rank ends with the sum, and with the same bits, twice, also of floats that a row begins") {
  const auto algorithm = GENERATE(Algorithm::kRing, Algorithm::kBinaryBlocks, Algorithm::kTorus,
                                  Algorithm::kHierarchical, Algorithm::kDirect, Algorithm::kTree);
  const auto count = GENERATE(1U, 2U, 3U, 4U, 6U);
  const bool shares = GENERATE(false, true);
  constexpr std::int64_t kFloats = 30'011;
  const schedule::Plan plan = planned(algorithm, count, kFloats);
  INFO(plan.name << ", " << count << " ranks" << (shares ? ", in shared memory" : ""));
  std::vector<float> sum(kFloats);
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    const std::vector<float> own = whole_numbers(rank, kFloats);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += own[i];
  }
  std::vector<std::vector<float>> first(count);
  std::vector<char> exact(count);
  std::vector<char> repeats(count);
  std::vector<char> begun(count);
  Ranks ranks(count);
  if (shares) ranks.share(kFloats);
  const auto ended = ranks.run([&](Mesh& mesh, std::uint32_t rank) {
    if (mesh.shares_memory() != (shares && count > 1)) return internal_error("another way than asked for");
    const Program program(plan, rank);
    std::pmr::vector<float> vector = ranks.vector(rank, whole_numbers(rank, kFloats));
    PACELINE_RETURN_IF_ERROR(mesh.reduce(program, vector, 0, kWithin));
    exact[rank] = std::equal(sum.begin(), sum.end(), vector.begin());
    const std::vector<float> any = any_numbers(rank, kFloats);
    std::copy(any.begin(), any.end(), vector.begin());
    PACELINE_RETURN_IF_ERROR(mesh.reduce(program, vector, 1, kWithin));
    first[rank].assign(vector.begin(), vector.end());
    std::copy(any.begin(), any.end(), vector.begin());
    PACELINE_RETURN_IF_ERROR(mesh.reduce(program, vector, 2, kWithin));
    repeats[rank] = std::equal(vector.begin(), vector.end(), first[rank].begin());
    PACELINE_RETURN_IF_ERROR(reduce_begun(mesh, program, vector, any, 3));
    begun[rank] = std::equal(vector.begin(), vector.end(), first[rank].begin());
    return Status::ok();
  });
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    CHECK(ended[rank].message() == "");
    CHECK(exact[rank] == 1);
    CHECK(repeats[rank] == 1);
    CHECK(begun[rank] == 1);
    CHECK(first[rank] == first[0]);
  }
}

// More than sockets hold. Rank 0 takes all of them together, rank 1 each by itself, others some. Part 2 is smaller, has
// other ways and begins its floats itself.
TEST_CASE(
    "ranks take reductions together or one after another, as they like, and each sum is whole when it is "
    "said to be") {
  const auto algorithm = GENERATE(Algorithm::kRing, Algorithm::kBinaryBlocks, Algorithm::kTree);
  const auto count = GENERATE(1U, 2U, 4U);
  const bool shares = GENERATE(false, true);
  const bool is_plain = GENERATE(true, false);  // else in fewer bytes, and over sockets sealed
  const Encoding encoding = is_plain ? Encoding::kFp32 : Encoding::kBf16;
  constexpr std::int64_t kParts = 5, kOf = 80'000, kOther = 2, kOfOther = 30'011, kFloats = kParts * kOf;
  const schedule::Plan plan = planned(algorithm, count, kOf);
  const schedule::Plan other_plan =
      planned(algorithm == Algorithm::kTree ? Algorithm::kRing : Algorithm::kTree, count, kOfOther);
  INFO(plan.name << ", " << count << " ranks, encoding " << static_cast<int>(encoding)
                 << (shares ? ", in shared memory" : ""));
  std::vector<std::vector<float>> owns;
  std::vector<float> sum(kFloats);
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    owns.push_back(small_numbers(rank, kFloats));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += owns[rank][i];
  }
  const std::vector<std::int64_t> together[] = {{5}, {1, 1, 1, 1, 1}, {1, 3, 1}, {2, 3}};
  std::vector<int> whole(count);
  Ranks ranks(count);
  if (shares) ranks.share(kFloats);
  if (!is_plain) ranks.key = new_formation_key();
  const auto ended = ranks.run([&](Mesh& mesh, std::uint32_t rank) {
    const Program program(plan, rank, encoding);
    const Program other(other_plan, rank, encoding);
    const schedule::FirstAdds begun = schedule::first_adds(other.rows, other.floats);
    const std::vector<float>& own = owns[rank];
    std::pmr::vector<float> vector = ranks.vector(rank, own);
    std::fill_n(vector.begin() + kOther * kOf, kOfOther, std::numeric_limits<float>::quiet_NaN());
    const Mesh::Beginning beginning{&begun, [&](std::int64_t at, std::span<float> out) {
                                      std::copy_n(own.begin() + kOther * kOf + at, out.size(), out.begin());
                                    }};
    std::int64_t first = 0;
    for (const std::int64_t some : together[rank]) {
      std::vector<Mesh::Part> parts;
      for (std::int64_t part = first; part < first + some; ++part) {
        const std::span<float> floats = std::span(vector).subspan(static_cast<std::size_t>(part * kOf), kOf);
        const auto number = static_cast<std::uint32_t>(part);
        if (part == kOther) {
          parts.push_back({other, floats.first(kOfOther), number, beginning});
        } else {
          parts.push_back({program, floats, number});
        }
      }
      PACELINE_RETURN_IF_ERROR(mesh.reduce(parts, kWithin, [&](std::size_t part) {
        const std::span<const float> done = parts[part].vector;
        whole[rank] += std::equal(done.begin(), done.end(), sum.begin() + (done.data() - vector.data()));
      }));
      first += some;
    }
    return Status::ok();
  });
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    CHECK(ended[rank].message() == "");
    CHECK(whole[rank] == kParts);
  }
}

// Rank 0 makes the floats of its second part when rank 1 has the first one whole: so that one has left by then.
TEST_CASE("what no row begins of a part is made when those before it have left") {
  constexpr std::int64_t kOf = 1000;
  const schedule::Plan plan = planned(Algorithm::kRing, 2, kOf);
  std::promise<void> first_is_whole;
  std::future<void> whole = first_is_whole.get_future();
  std::vector<float> vectors[2];
  Ranks ranks(2);
  const auto ended = ranks.run([&](Mesh& mesh, std::uint32_t rank) -> Status {
    const Program program(plan, rank);
    vectors[rank] = whole_numbers(rank, 2 * kOf);
    const std::span<float> first = std::span(vectors[rank]).first(kOf);
    const std::span<float> second = std::span(vectors[rank]).last(kOf);
    if (rank == 1) {
      PACELINE_RETURN_IF_ERROR(mesh.reduce(program, first, 0, kWithin));
      first_is_whole.set_value();
      return mesh.reduce(program, second, 1, kWithin);
    }
    const std::vector<float> own(second.begin(), second.end());
    bool has_left = true;
    const schedule::FirstAdds begun = schedule::first_adds(program.rows, program.floats);
    const auto make = [&](std::int64_t at, std::span<float> out) {
      has_left = has_left && whole.wait_for(kWithin / 2) == std::future_status::ready;
      std::copy_n(own.begin() + at, out.size(), out.begin());
    };
    const Mesh::Part parts[] = {{program, first, 0}, {program, second, 1, {&begun, make}}};
    PACELINE_RETURN_IF_ERROR(mesh.reduce(parts, kWithin, [](std::size_t) {}));
    return has_left ? Status::ok() : internal_error("it was made before the first part had left");
  });
  for (const Status& status : ended) CHECK(status.message() == "");
  std::vector<float> sum = whole_numbers(0, 2 * kOf);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += whole_numbers(1, 2 * kOf)[i];
  CHECK((vectors[0] == sum && vectors[1] == sum));
}

// 64 values of each sign have an exact fp16 and bf16, and so have their sums of up to four; any others are rounded, on
// every rank alike.
TEST_CASE("floats that travel in fewer bytes end with the same bits on every rank, near the sum") {
  const auto algorithm = GENERATE(Algorithm::kRing, Algorithm::kBinaryBlocks, Algorithm::kTorus,
                                  Algorithm::kHierarchical, Algorithm::kDirect, Algorithm::kTree);
  const auto encoding = GENERATE(Encoding::kFp16, Encoding::kBf16);
  const auto count = GENERATE(2U, 3U, 4U);
  constexpr std::int64_t kFloats = 10'007;
  const schedule::Plan plan = planned(algorithm, count, kFloats);
  INFO(plan.name << ", " << count << " ranks, encoding " << static_cast<int>(encoding));
  std::vector<double> sum(kFloats);
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    const std::vector<float> own = any_numbers(rank, kFloats);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(own[i]);
  }
  std::vector<std::vector<float>> rounded(count), exact(count), begun(count);
  std::vector<std::int64_t> bytes(count);
  Ranks ranks(count);
  const auto ended = ranks.run([&](Mesh& mesh, std::uint32_t rank) {
    const Program program(plan, rank, encoding);
    exact[rank].resize(kFloats);
    for (std::size_t i = 0; i < exact[rank].size(); ++i) exact[rank][i] = static_cast<float>((i + rank) % 64);
    PACELINE_RETURN_IF_ERROR(mesh.reduce(program, exact[rank], 0, kWithin));
    bytes[rank] = mesh.bytes_sent();
    rounded[rank] = any_numbers(rank, kFloats);
    PACELINE_RETURN_IF_ERROR(mesh.reduce(program, rounded[rank], 1, kWithin));
    begun[rank].resize(kFloats);
    return reduce_begun(mesh, program, begun[rank], any_numbers(rank, kFloats), 2);
  });
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    CHECK(ended[rank].message() == "");
    CHECK(rounded[rank] == rounded[0]);
    CHECK(begun[rank] == rounded[0]);
    CHECK(bytes[rank] == 2 * schedule::floats_sent(plan.ranks[rank]));
  }
  // Each rounding is by half a unit of the last of 8 bits at most, and a float is rounded on each of its ways.
  const double share = 2.0 * count / 256;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    float whole = 0;
    for (std::uint32_t rank = 0; rank < count; ++rank) whole += static_cast<float>((i + rank) % 64);
    if (exact[0][i] != whole || std::abs(static_cast<double>(rounded[0][i]) - sum[i]) > share * sum[i]) {
      FAIL("float " << i << ": " << exact[0][i] << " and " << rounded[0][i] << ", expected " << whole
                    << " and " << sum[i]);
    }
  }
}

TEST_CASE("floats of fewer bits are the same over sockets and in shared memory, and count alike") {
  const auto encoding = GENERATE(Encoding::kFp16, Encoding::kBf16);
  constexpr std::int64_t kFloats = 10'007;
  const schedule::Plan plan = planned(Algorithm::kRing, 3, kFloats);
  std::vector<float> results[2];
  std::int64_t bytes[2];
  for (const bool shares : {false, true}) {
    Ranks ranks(3);
    if (shares) ranks.share(kFloats);
    const auto ended = ranks.run([&](Mesh& mesh, std::uint32_t rank) {
      std::pmr::vector<float> vector = ranks.vector(rank, any_numbers(rank, kFloats));
      PACELINE_RETURN_IF_ERROR(mesh.reduce(Program(plan, rank, encoding), vector, 0, kWithin));
      if (rank == 1) {
        results[shares].assign(vector.begin(), vector.end());
        bytes[shares] = mesh.bytes_sent();
      }
      return Status::ok();
    });
    for (const Status& status : ended) CHECK(status.message() == "");
  }
  CHECK(results[0] == results[1]);
  CHECK(bytes[0] == bytes[1]);
}

// It is small, as what ranks tell each other of their times.
TEST_CASE("a vector that lies elsewhere passes through the shared memory") {
  Ranks ranks(2);
  ranks.share(64);
  const schedule::Plan plan = planned(Algorithm::kTree, 2, 1000);
  std::vector<float> vectors[2] = {whole_numbers(0, 1000), whole_numbers(1, 1000)};
  const auto ended = ranks.run([&](Mesh& mesh, std::uint32_t rank) {
    return mesh.reduce(Program(plan, rank), vectors[rank], 0, kWithin);
  });
  for (const Status& status : ended) CHECK(status.message() == "");
  std::vector<float> sum = whole_numbers(0, 1000);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += whole_numbers(1, 1000)[i];
  CHECK((vectors[0] == sum && vectors[1] == sum));
}

TEST_CASE("where one rank has no memory to share both use their sockets") {
  Ranks ranks(2);
  ranks.share(1000);
  SECTION("it could make none") { ranks.segments[1] = nullptr; }
  SECTION("it offers more than all have") {
    ranks.segments[1] = *wire::SharedSegment::create(SharedPeers::segment_bytes(50'000'000, 2));
  }
  const schedule::Plan plan = planned(Algorithm::kRing, 2, 1000);
  const auto ended = ranks.run([&](Mesh& mesh, std::uint32_t rank) {
    if (mesh.shares_memory()) return internal_error("it shares");
    std::vector<float> vector = whole_numbers(rank, 1000);
    return mesh.reduce(Program(plan, rank), vector, 0, kWithin);
  });
  for (const Status& status : ended) CHECK(status.message() == "");
}

}  // namespace
}  // namespace paceline::mesh
