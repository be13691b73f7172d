// A shard's file: what is written is read back bit for bit, and whatever is not exactly that is refused.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "server/checkpoint/checksum.h"
#include "server/checkpoint/shard_header.h"
#include "tests/unit/checkpoint_fixture.h"
#include "tests/unit/file_size_limit.h"
#include "tests/unit/temp_folder.h"
#include "tests/unit/unwritable_folder.h"

namespace paceline::server {
namespace {

using Catch::Contains;
using testing::FileSizeLimit;
using testing::TempFolder;
using testing::UnwritableFolder;

constexpr std::int64_t kFew = 7;

// Both readers say the same of these bytes.
Status status_of_bytes(const std::string& bytes, const ShardFileWanted& wanted) {
  static const TempFolder folder;  // for all the bytes there are
  put_file(folder / "shard-0", bytes);
  const Status verified = verify_shard_file(folder / "shard-0", wanted).status();
  const Status read = read_shard_file(folder / "shard-0", wanted, 4).status();
  CHECK(verified.message() == read.message());
  CHECK(verified.code() == read.code());
  return verified;
}

std::string few_bytes(std::int64_t version = 118) {
  const TempFolder folder;
  REQUIRE(write_shard_file(folder / "shard-0", owner_of(kFew), image_of(kFew, version)).is_ok());
  return bytes_of(folder / "shard-0");
}

// The header's checksum made right again.
std::string sealed(std::string bytes) {
  constexpr std::size_t kAt = ShardHeader::kBytes - 8;
  const std::uint64_t sum = checksum(std::as_bytes(std::span(bytes).first(kAt)));
  std::memcpy(bytes.data() + kAt, &sum, sizeof sum);
  return bytes;
}

std::ptrdiff_t files_left_in(const std::filesystem::path& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

TEST_CASE("an image is read back bit for bit, whatever blocks it is cut into") {
  const std::int64_t floats = GENERATE(std::int64_t{0}, 1, 7, kChunkFloats, 2 * kChunkFloats + 5);
  const int sections = GENERATE(0, 1, 2, 3);
  const TempFolder folder;
  const ShardImage image = image_of(floats, 118, sections);
  const auto written = write_shard_file(folder / "shard-0", owner_of(floats), ShardImage(image));
  REQUIRE(written.is_ok());
  CHECK(written->bytes == std::filesystem::file_size(folder / "shard-0"));
  ShardFileWanted wanted = wanted_of(floats);
  wanted.digest = *written;
  const auto read = read_shard_file(folder / "shard-0", wanted, 1000);
  REQUIRE(read.is_ok());
  CHECK(same_image(read->image, image));
  CHECK(read->image.parameters.block_floats() == 1000);
  const auto verified = verify_shard_file(folder / "shard-0", wanted);
  REQUIRE(verified.is_ok());
  CHECK(verified->owner == owner_of(floats));
  CHECK(verified->version == Version(118));
  CHECK(verified->revision == image.revision);
  CHECK(verified->decisions == image.decisions);
  CHECK(verified->digest == *written);
}

TEST_CASE("an image is let go of while it is written") {
  const TempFolder folder;
  ShardImage image = image_of(kChunkFloats + 1);
  REQUIRE(write_shard_file(folder / "shard-0", owner_of(kChunkFloats + 1), std::move(image)).is_ok());
  for (const BlockRange* section :
       {&image.parameters, &image.optimizer.first, &image.optimizer.second, &image.mean_square}) {
    REQUIRE(section->block_count() > 1);
    for (std::int64_t i = 0; i < section->block_count(); ++i) REQUIRE_FALSE(section->ref(i));
  }
}

TEST_CASE("what an error leaves unwritten of an image is still there") {
  const TempFolder folder;
  ShardImage image = image_of(kChunkFloats + 1);
  {
    const FileSizeLimit full(200);
    REQUIRE_FALSE(write_shard_file(folder / "shard-0", owner_of(kChunkFloats + 1), std::move(image)).is_ok());
  }
  CHECK(image.parameters.ref(image.parameters.block_count() - 1));
  CHECK(image.optimizer.first.ref(0));
}

TEST_CASE("every byte that is flipped is noticed") {
  const std::string good = few_bytes();
  REQUIRE(status_of_bytes(good, wanted_of(kFew)).is_ok());
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ flip);
      const Status status = status_of_bytes(bad, wanted_of(kFew));
      INFO("byte " << at << ": " << status.message());
      REQUIRE_FALSE(status.is_ok());
      REQUIRE(status.code() == (at < 8 ? StatusCode::kInvalidArgument : StatusCode::kDataLoss));
    }
  }
}

TEST_CASE("every truncation and everything after the end is noticed") {
  const std::string good = few_bytes();
  for (std::size_t length = 0; length < good.size(); ++length) {
    const Status status = status_of_bytes(good.substr(0, length), wanted_of(kFew));
    REQUIRE(status.code() == StatusCode::kDataLoss);
    REQUIRE_THAT(status.message(), Contains("truncated") && Contains("shard-0"));
  }
  CHECK_THAT(status_of_bytes(good + '\0', wanted_of(kFew)).message(), Contains("too long"));
  CHECK_THAT(status_of_bytes(good + good, wanted_of(kFew)).message(), Contains("too long"));
}

TEST_CASE("a larger file's changes and truncations are noticed wherever they are") {
  constexpr std::int64_t kMany = 2 * kChunkFloats + 5;
  const TempFolder folder;
  const std::filesystem::path file = folder / "shard-0";
  REQUIRE(write_shard_file(file, owner_of(kMany), image_of(kMany, 118, 1)).is_ok());
  const std::string good = bytes_of(file);
  CounterRandom random(5, Stream::kTest);
  for (int trial = 0; trial < 40; ++trial) {
    std::string bad = good;
    const std::size_t at = random.next_below(good.size());
    if (trial % 2 == 0) {
      bad[at] = static_cast<char>(bad[at] ^ (1 << random.next_below(8)));
    } else {
      bad.resize(at);
    }
    put_file(file, bad);
    INFO("byte " << at << " of " << good.size());
    REQUIRE_FALSE(verify_shard_file(file, wanted_of(kMany)).is_ok());
  }
}

TEST_CASE("a chunk of another place or of another file is a broken one") {
  constexpr std::size_t kSection = kFew * sizeof(float) + 8;
  constexpr std::size_t kBegin = ShardHeader::kBytes;
  const std::string good = few_bytes();
  std::string exchanged = good;
  std::swap_ranges(exchanged.begin() + kBegin, exchanged.begin() + kBegin + kSection,
                   exchanged.begin() + kBegin + kSection);
  CHECK_THAT(status_of_bytes(exchanged, wanted_of(kFew)).message(), Contains("chunk 0 is corrupted"));
  std::string older = good;
  older.replace(kBegin + kSection, kSection, few_bytes(117), kBegin + kSection, kSection);
  CHECK_THAT(status_of_bytes(older, wanted_of(kFew)).message(), Contains("chunk 1 is corrupted"));
}

TEST_CASE("another run's or shard's file is refused by name") {
  const std::string good = few_bytes();
  const auto refused = [&](const std::function<void(ShardFileWanted&)>& change) {
    ShardFileWanted wanted = wanted_of(kFew);
    change(wanted);
    const Status status = status_of_bytes(good, wanted);
    CHECK(status.code() == StatusCode::kInvalidArgument);
    CHECK_THAT(status.message(), Contains("shard-0: "));
    return status.message();
  };
  CHECK_THAT(refused([](auto& w) { w.layout_hash = 0x1a708; }),
             Contains("layout hash 000000000001a707, expected 000000000001a708"));
  CHECK_THAT(refused([](auto& w) { w.fingerprint = 1; }),
             Contains("configuration fingerprint 000000000000f00d, expected 0000000000000001"));
  CHECK_THAT(refused([](auto& w) { w.shard = ShardId(2); }), Contains("shard 0, expected 2"));
  CHECK_THAT(refused([](auto& w) { w.range = Range{100, 108}; }),
             Contains("floats [100, 107), expected [100, 108)"));
  CHECK_THAT(refused([](auto& w) { w.id.version = Version(119); }),
             Contains("version 118 of generation 1, expected version 119 of generation 1"));
  CHECK_THAT(refused([](auto& w) { w.id.generation = 2; }), Contains("expected version 118 of generation 2"));
  // Who knows neither layout nor range takes it.
  ShardFileWanted unknown = wanted_of(kFew);
  unknown.layout_hash.reset();
  unknown.range.reset();
  CHECK(status_of_bytes(good, unknown).is_ok());
}

TEST_CASE("a file that its manifest does not mean is refused") {
  const std::string good = few_bytes();
  ShardFileWanted wanted = wanted_of(kFew);
  wanted.digest = FileDigest{good.size() + 1, 0};
  CHECK_THAT(status_of_bytes(good, wanted).message(), Contains("its manifest says"));
  wanted.digest = FileDigest{good.size(), 1};
  const Status status = status_of_bytes(good, wanted);
  CHECK(status.code() == StatusCode::kDataLoss);
  CHECK_THAT(status.message(), Contains("its manifest says 0000000000000001"));
}

TEST_CASE("numbers that no run has are refused before memory is taken for them") {
  const std::string good = few_bytes();
  const auto with = [&](std::size_t at, std::int64_t number) {
    std::string bytes = good;
    std::memcpy(bytes.data() + at, &number, sizeof number);
    ShardFileWanted unknown = wanted_of(kFew);
    unknown.range.reset();
    return status_of_bytes(sealed(bytes), unknown);
  };
  CHECK_THAT(with(72, std::int64_t{1} << 40).message(), Contains("truncated"));  // 4 TB of each vector
  CHECK_THAT(with(72, (std::int64_t{1} << 40) + 1).message(), Contains("expected a range within"));
  CHECK_THAT(with(72, 99).message(), Contains("[100, 99)"));
  CHECK_THAT(with(64, -1).message(), Contains("[-1, 107)"));
  CHECK_THAT(with(24, 0).message(), Contains("generation 0"));
  CHECK_THAT(with(32, -1).message(), Contains("version -1"));
  CHECK_THAT(with(40, -1).message(), Contains("revision -1"));
  CHECK_THAT(with(48, -1).message(), Contains("decisions -1"));
  CHECK_THAT(with(56, -1).message(), Contains("steps of the optimizer -1"));
  CHECK_THAT(with(80, std::int64_t{8} << 32).message(), Contains("sections 8"));
}

TEST_CASE("what is no file is refused") {
  const TempFolder folder;
  CHECK(verify_shard_file(folder / "none", wanted_of(kFew)).status().code() == StatusCode::kNotFound);
  CHECK(verify_shard_file(folder.path(), wanted_of(kFew)).status().code() == StatusCode::kUnavailable);
  CHECK_THAT(status_of_bytes("a text that somebody put there", wanted_of(kFew)).message(),
             Contains("not a shard's checkpoint"));
}

TEST_CASE("a full disk is named, and leaves what was there and nothing else") {
  const TempFolder folder;
  const std::filesystem::path file = folder / "shard-0";
  REQUIRE(write_shard_file(file, owner_of(kFew), image_of(kFew)).is_ok());
  const auto limit = static_cast<rlim_t>(GENERATE(0, 96, 200, 9000));  // in the header, in a vector, later
  Status status;
  {
    const FileSizeLimit full(limit);
    status = write_shard_file(file, owner_of(5000), image_of(5000)).status();
  }
  CHECK(status.code() == StatusCode::kResourceExhausted);
  CHECK_THAT(status.message(), Contains("shard-0") && Contains("cannot write"));
  CHECK(files_left_in(folder.path()) == 1);
  CHECK(verify_shard_file(file, wanted_of(kFew)).is_ok());
}

TEST_CASE("a folder without permission is named, and nothing in it touched") {
  const TempFolder folder;
  const std::filesystem::path file = folder / "shard-0";
  REQUIRE(write_shard_file(file, owner_of(kFew), image_of(kFew)).is_ok());
  Status status;
  {
    const UnwritableFolder unwritable(folder.path());
    status = write_shard_file(file, owner_of(kFew), image_of(kFew, 119)).status();
  }
  CHECK(status.code() == StatusCode::kUnavailable);
  CHECK_THAT(status.message(), Contains("shard-0: Permission denied"));
  CHECK(files_left_in(folder.path()) == 1);
  CHECK(verify_shard_file(file, wanted_of(kFew)).is_ok());
}

}  // namespace
}  // namespace paceline::server
