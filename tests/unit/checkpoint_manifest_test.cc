// The manifest: what is written is read back, and whatever is not exactly that is refused.
#include <catch2/catch.hpp>
#include <limits>

#include "tests/unit/checkpoint_fixture.h"
#include "tests/unit/file_size_limit.h"
#include "tests/unit/temp_folder.h"

namespace paceline::server {
namespace {

using Catch::Contains;
using testing::TempFolder;

Manifest some_manifest() {
  Manifest manifest;
  manifest.id = {2, Version(118)};
  manifest.revision = Revision(472);
  manifest.decisions = 236;
  manifest.layout_hash = 0x1a707;
  manifest.fingerprint = kTestFingerprint;
  manifest.shards = {{208, 0xabc}, {0, std::numeric_limits<std::uint64_t>::max()}};
  manifest.seconds_trained = 61.5;
  manifest.engine = std::string("any\0bytes", 9);
  manifest.record = "\xff more";
  manifest.data_fingerprint = 0xda7a;
  return manifest;
}

Result<Manifest> read_back(const std::filesystem::path& file) {
  return read_manifest(file, {2, Version(118)}, kTestFingerprint);
}

TEST_CASE("a manifest is read back as it was written") {
  const TempFolder folder;
  REQUIRE(write_manifest(folder / "manifest", some_manifest()));
  const auto read = read_back(folder / "manifest");
  REQUIRE(read.is_ok());
  CHECK(*read == some_manifest());
}

TEST_CASE("every flipped byte and every truncation of a manifest is noticed") {
  const TempFolder folder;
  const std::filesystem::path file = folder / "manifest";
  REQUIRE(write_manifest(file, some_manifest()));
  const std::string good = bytes_of(file);
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ flip);
      put_file(file, bad);
      INFO("byte " << at);
      REQUIRE_FALSE(read_back(file).is_ok());
    }
    put_file(file, good.substr(0, at));
    REQUIRE(read_back(file).status().code() == StatusCode::kDataLoss);
  }
  put_file(file, good + '\0');
  CHECK_THAT(read_back(file).status().message(), Contains("manifest: truncated, grown or corrupted"));
  put_file(file, "something else");
  CHECK_THAT(read_back(file).status().message(), Contains("not a checkpoint's manifest"));
  CHECK(read_back(folder / "none").status().code() == StatusCode::kNotFound);
}

TEST_CASE("another run's or checkpoint's manifest is refused by name") {
  const TempFolder folder;
  const std::filesystem::path file = folder / "manifest";
  REQUIRE(write_manifest(file, some_manifest()));
  const Status configuration = read_manifest(file, {2, Version(118)}, 1).status();
  CHECK(configuration.code() == StatusCode::kInvalidArgument);
  CHECK_THAT(configuration.message(),
             Contains("configuration fingerprint 000000000000f00d, expected 0000000000000001"));
  const Status other = read_manifest(file, {1, Version(118)}, kTestFingerprint).status();
  CHECK_THAT(other.message(), Contains("version 118 of generation 2, expected version 118 of generation 1"));
}

TEST_CASE("a manifest with numbers that no run has is refused") {
  const TempFolder folder;
  const std::filesystem::path file = folder / "manifest";
  const auto refused = [&](auto change) {
    Manifest manifest = some_manifest();
    change(manifest);
    REQUIRE(write_manifest(file, manifest));
    const Status status = read_back(file).status();
    CHECK(status.code() == StatusCode::kDataLoss);
    return status.message();
  };
  CHECK_THAT(refused([](Manifest& m) { m.id.generation = 0; }), Contains("generation 0"));
  CHECK_THAT(refused([](Manifest& m) { m.id.version = Version(-1); }), Contains("version -1"));
  CHECK_THAT(refused([](Manifest& m) { m.revision = Revision(-1); }), Contains("revision -1"));
  CHECK_THAT(refused([](Manifest& m) { m.decisions = -1; }), Contains("decisions -1"));
  CHECK_THAT(refused([](Manifest& m) { m.shards.resize(65); }), Contains("shards 65, expected 1 to 64"));
  CHECK_THAT(refused([](Manifest& m) { m.shards.clear(); }), Contains("shards 0"));
  CHECK_THAT(refused([](Manifest& m) { m.seconds_trained = -1; }), Contains("seconds trained -1"));
  CHECK_THAT(refused([](Manifest& m) { m.seconds_trained = std::numeric_limits<double>::quiet_NaN(); }),
             Contains("seconds trained nan"));
}

TEST_CASE("a full disk leaves the manifest that was there") {
  const TempFolder folder;
  const std::filesystem::path file = folder / "manifest";
  REQUIRE(write_manifest(file, some_manifest()));
  Manifest next = some_manifest();
  next.record.assign(10'000, 'x');
  Status status;
  {
    const testing::FileSizeLimit full(4096);
    status = write_manifest(file, next);
  }
  CHECK(status.code() == StatusCode::kResourceExhausted);
  CHECK(read_back(file).is_ok());
}

}  // namespace
}  // namespace paceline::server
