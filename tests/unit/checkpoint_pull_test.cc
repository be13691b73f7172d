// The files of a checkpoint, given piece by piece (server/replicas/checkpoint_pull.h).
#include "server/replicas/checkpoint_pull.h"

#include <catch2/catch.hpp>
#include <deque>
#include <string>

#include "tests/unit/temp_folder.h"

namespace paceline::server {
namespace {

using wire::CheckpointFile;

// A shard's file of two pieces and a bit, and a small manifest.
struct Given {
  Given() {
    for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * i);
    REQUIRE(write_file_atomically(folder.path() / "shard", content).is_ok());
    REQUIRE(write_file_atomically(folder.path() / "manifest", "whole").is_ok());
  }
  std::string read(const char* name) const { return *read_file(folder.path() / name, 1 << 22); }
  wire::Payload piece(const wire::FilePull& asked) const {
    const bool shard = asked.file == CheckpointFile::kShard;
    auto piece = piece_of(folder.path() / (shard ? "shard" : "manifest"), asked);
    REQUIRE(piece.is_ok());
    return *piece;
  }
  testing::TempFolder folder;
  std::string content = std::string(2 * wire::kPayloadBytesMax + 123, '\0');
  CheckpointPull pull{
      {2, Version(7)},
      {{CheckpointFile::kShard, folder.path() / "got-shard", 2 * wire::kPayloadBytesMax + 123},
       {CheckpointFile::kManifest, folder.path() / "got-manifest", 5}}};
};

TEST_CASE("what is given is the files, the manifest last, and no more is under way than is meant to be") {
  Given given;
  std::deque<wire::FilePull> asked;
  std::size_t pieces = 0;
  while (!given.pull.complete()) {
    while (const auto pull = given.pull.next()) asked.push_back(*pull);
    REQUIRE(!asked.empty());
    CHECK(std::ssize(asked) <= CheckpointPull::kUnderWay);
    const wire::FilePull pull = asked.front();
    asked.pop_front();
    CHECK_FALSE(std::filesystem::exists(given.folder.path() / "got-manifest"));
    REQUIRE(given.pull.on({pull.file, pull.offset}, given.piece(pull)).is_ok());
    ++pieces;
  }
  CHECK(pieces == 4);
  CHECK(given.read("got-shard") == given.content);
  CHECK(given.read("got-manifest") == "whole");
  CHECK(!given.pull.next());
}

TEST_CASE("a piece that was not asked for, comes twice or is cut short is refused, and nothing is left") {
  const auto refused = [](auto&& spoil) {
    Given given;
    const wire::FilePull pull = *given.pull.next();
    wire::FilePiece piece{pull.file, pull.offset};
    wire::Payload payload = given.piece(pull);
    spoil(piece, payload);
    CHECK(given.pull.on(piece, payload).code() == StatusCode::kDataLoss);
    CHECK_FALSE(std::filesystem::exists(given.folder.path() / "got-shard"));
  };
  refused([](auto& piece, auto&) { piece.file = CheckpointFile::kManifest; });
  refused([](auto& piece, auto&) { piece.offset = 1; });
  refused([](auto&, auto& payload) { payload.size -= 1; });
  Given given;
  CHECK(given.pull.on({CheckpointFile::kShard, 0}, {}).code() == StatusCode::kDataLoss);
}

TEST_CASE("after the end of a file there is nothing, and of one that is not there an error") {
  Given given;
  CHECK(piece_of(given.folder.path() / "shard", {CheckpointFile::kShard, 1 << 30})->size == 0);
  CHECK(!piece_of(given.folder.path() / "nothing", {CheckpointFile::kShard, 0}).is_ok());
}

}  // namespace
}  // namespace paceline::server
