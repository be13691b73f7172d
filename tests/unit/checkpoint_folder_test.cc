// The folder of a run's checkpoints: which count, which go, and that no moment at which a process can die
// costs the newest complete one.
#include <catch2/catch.hpp>

#include "tests/unit/checkpoint_fixture.h"
#include "tests/unit/temp_folder.h"
#include "tests/unit/unwritable_folder.h"

namespace paceline::server {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using testing::TempFolder;

constexpr std::int64_t kFloats = 5;

CheckpointId id_at(std::int64_t version, std::uint64_t generation = 1) {
  return {generation, Version(version)};
}

FileDigest write_shard(const CheckpointFolder& folder, CheckpointId id, std::uint32_t shard) {
  REQUIRE(folder.make(id));
  const auto written =
      write_shard_file(folder.shard_file(id, ShardId(shard)), owner_of(kFloats, shard, id.generation),
                       image_of(kFloats, id.version.value));
  REQUIRE(written.is_ok());
  return *written;
}

// A complete checkpoint of two shards.
void write_whole(const CheckpointFolder& folder, CheckpointId id) {
  Manifest manifest;
  manifest.id = id;
  manifest.fingerprint = kTestFingerprint;
  manifest.shards = {write_shard(folder, id, 0), write_shard(folder, id, 1)};
  REQUIRE(write_manifest(folder.manifest(id), manifest));
}

void write_text(const fs::path& file) { put_file(file, "text"); }

std::vector<CheckpointId> complete_of(const CheckpointFolder& folder) {
  const auto complete = folder.complete();
  REQUIRE(complete.is_ok());
  std::vector<CheckpointId> ids;
  for (const Manifest& manifest : complete->checkpoints) ids.push_back(manifest.id);
  return ids;
}

std::vector<CheckpointId> intact_of(const CheckpointFolder& folder, std::uint32_t shard) {
  const auto intact = folder.intact(ShardId(shard));
  REQUIRE(intact.is_ok());
  std::vector<CheckpointId> ids;
  for (const ShardFileInfo& file : intact->files) ids.push_back({file.owner.generation, file.version});
  return ids;
}

using Ids = std::vector<CheckpointId>;

struct Run {
  TempFolder folder;
  CheckpointFolder checkpoints{folder.path(), kTestFingerprint};
};

TEST_CASE("names are made from numbers") {
  const CheckpointFolder folder("runs/x", kTestFingerprint);
  CHECK(folder.shard_file(id_at(118), ShardId(3)) == "runs/x/checkpoint/g1-v000000000118/shard-3");
  CHECK(folder.manifest(id_at(118, 20)) == "runs/x/checkpoint/g20-v000000000118/manifest");
}

TEST_CASE("where nothing was written there is nothing") {
  const Run run;
  CHECK(complete_of(run.checkpoints).empty());
  CHECK(intact_of(run.checkpoints, 0).empty());
  CHECK(run.checkpoints.prune(2).status().code() == StatusCode::kNotFound);
  CHECK(run.checkpoints.prune_shard(ShardId(1), id_at(5)).is_ok());
  CHECK(run.checkpoints.clear().is_ok());
}

TEST_CASE("the newest comes first, and a later generation is newer than any version before it") {
  const Run run;
  for (const CheckpointId id : {id_at(200), id_at(100), id_at(150, 2), id_at(90, 10)})
    write_whole(run.checkpoints, id);
  const Ids expected = {id_at(90, 10), id_at(150, 2), id_at(200), id_at(100)};
  CHECK(complete_of(run.checkpoints) == expected);
  CHECK(intact_of(run.checkpoints, 1) == expected);
}

TEST_CASE("as many as are to be kept stay, and the rest goes") {
  const Run run;
  for (std::int64_t version = 1; version <= 5; ++version) write_whole(run.checkpoints, id_at(version));
  const auto oldest = run.checkpoints.prune(3);
  REQUIRE(oldest.is_ok());
  CHECK(oldest->oldest_kept == id_at(3));
  CHECK(oldest->status.is_ok());
  CHECK(complete_of(run.checkpoints) == Ids{id_at(5), id_at(4), id_at(3)});
  CHECK_FALSE(fs::exists(run.checkpoints.folder(id_at(2))));
  REQUIRE(run.checkpoints.prune(0).is_ok());  // the last one never goes
  CHECK(complete_of(run.checkpoints) == Ids{id_at(5)});
}

// What a killed process can leave of a checkpoint, stage by stage.
void leave_behind(const CheckpointFolder& folder, CheckpointId id, int stage) {
  if (stage >= 1) REQUIRE(folder.make(id));
  if (stage >= 2) write_text(folder.folder(id) / ".shard-0.4711.0.tmp");
  if (stage >= 3) write_shard(folder, id, 0);
  if (stage >= 4) write_text(folder.folder(id) / ".shard-1.4712.0.tmp");
  if (stage >= 5) write_shard(folder, id, 1);
  if (stage >= 6) write_text(folder.folder(id) / ".manifest.4711.1.tmp");
}

TEST_CASE("a write that is interrupted anywhere costs nothing, and goes when a newer one is complete") {
  const int stage = GENERATE(0, 1, 2, 3, 4, 5, 6);
  const Run run;
  write_whole(run.checkpoints, id_at(10));
  leave_behind(run.checkpoints, id_at(20), stage);
  CHECK(complete_of(run.checkpoints) == Ids{id_at(10)});
  REQUIRE(run.checkpoints.prune(2).is_ok());
  CHECK(complete_of(run.checkpoints) == Ids{id_at(10)});
  // It may be one that is just being written.
  CHECK(fs::exists(run.checkpoints.folder(id_at(20))) == (stage >= 1));
  write_whole(run.checkpoints, id_at(30));
  REQUIRE(run.checkpoints.prune(2).is_ok());
  CHECK(complete_of(run.checkpoints) == Ids{id_at(30), id_at(10)});
  CHECK_FALSE(fs::exists(run.checkpoints.folder(id_at(20))));
}

// Does `what` while nobody may remove the folder of a checkpoint, though its files: it holds folders, of
// which some come before the manifest in whatever order they are listed, with files that cannot be removed.
template <typename What>
void while_unremovable(const Run& run, CheckpointId id, const What& what) {
  const fs::path folder = run.checkpoints.folder(id);
  std::vector<fs::path> stuck;
  for (int i = 0; i < 32; ++i) {
    stuck.push_back(folder / ("stuck-" + std::to_string(i)));
    fs::create_directories(stuck.back());
    write_text(stuck.back() / "file");
    fs::permissions(stuck.back(), fs::perms(0555));
  }
  fs::permissions(run.folder.path(), fs::perms(0755));
  fs::permissions(folder.parent_path(), fs::perms(0777));
  for (const auto& one : fs::directory_iterator(folder.parent_path()))
    fs::permissions(one.path(), fs::perms(0777));
  {
    const testing::UnwritableFolder unwritable(stuck.front());
    what();
  }
  for (const fs::path& one : stuck) fs::permissions(one, fs::perms(0755));
}

TEST_CASE("a removal that fails half-way leaves no checkpoint that lacks a file, and says what is kept") {
  const Run run;
  for (const std::int64_t version : {10, 20, 30, 40}) write_whole(run.checkpoints, id_at(version));
  Result<CheckpointFolder::Pruned> pruned = internal_error("not pruned");
  while_unremovable(run, id_at(20), [&] { pruned = run.checkpoints.prune(2); });
  REQUIRE(pruned.is_ok());
  CHECK(pruned->oldest_kept == id_at(30));
  CHECK(pruned->status.code() == StatusCode::kUnavailable);
  CHECK_THAT(pruned->status.message(), Contains("g1-v000000000020"));
  CHECK_FALSE(fs::exists(run.checkpoints.manifest(id_at(20))));
  CHECK_FALSE(fs::exists(run.checkpoints.folder(id_at(10))));  // the rest has gone
  CHECK(complete_of(run.checkpoints) == Ids{id_at(40), id_at(30)});
  const auto again = run.checkpoints.prune(2);
  REQUIRE(again.is_ok());
  CHECK(again->status.is_ok());
  CHECK_FALSE(fs::exists(run.checkpoints.folder(id_at(20))));
}

// Of the right size: only who reads all of it notices.
void damage(const fs::path& file) {
  std::string bytes = bytes_of(file);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  put_file(file, bytes);
}

TEST_CASE("what a resume has passed over does not count among those that are kept") {
  const Run run;
  for (const std::int64_t version : {50, 100, 200}) write_whole(run.checkpoints, id_at(version));
  damage(run.checkpoints.shard_file(id_at(200), ShardId(1)));
  CHECK(complete_of(run.checkpoints) == Ids{id_at(200), id_at(100), id_at(50)});
  CHECK(intact_of(run.checkpoints, 1) == Ids{id_at(100), id_at(50)});
  REQUIRE(run.checkpoints.pass_over_newer(id_at(100)));
  CHECK(complete_of(run.checkpoints) == Ids{id_at(100), id_at(50)});
  CHECK(fs::exists(run.checkpoints.folder(id_at(200))));  // until there is a newer one
  REQUIRE(run.checkpoints.pass_over_newer(id_at(100)));   // once more is no error
  write_whole(run.checkpoints, id_at(110, 2));
  const auto pruned = run.checkpoints.prune(2);
  REQUIRE(pruned.is_ok());
  CHECK(pruned->oldest_kept == id_at(100));
  CHECK(complete_of(run.checkpoints) == Ids{id_at(110, 2), id_at(100)});
  CHECK(intact_of(run.checkpoints, 1) == Ids{id_at(110, 2), id_at(100)});
  CHECK_FALSE(fs::exists(run.checkpoints.folder(id_at(200))));
}

TEST_CASE("nothing is passed over where the newest is chosen, nor of another configuration") {
  const Run run;
  for (const std::int64_t version : {10, 20}) write_whole(run.checkpoints, id_at(version));
  REQUIRE(run.checkpoints.pass_over_newer(id_at(20)));
  CHECK(complete_of(run.checkpoints) == Ids{id_at(20), id_at(10)});
  REQUIRE(CheckpointFolder(run.folder.path(), 1).pass_over_newer(id_at(1)));
  CHECK(complete_of(run.checkpoints) == Ids{id_at(20), id_at(10)});
}

TEST_CASE("what cannot be read is refused, and is neither pruned nor abandoned") {
  const Run run;
  for (const std::int64_t version : {10, 20, 30, 40}) write_whole(run.checkpoints, id_at(version));
  fs::permissions(run.folder.path(), fs::perms(0755));
  fs::permissions(run.folder / "checkpoint", fs::perms(0777));
  for (const std::int64_t version : {10, 30, 40}) {
    fs::permissions(run.checkpoints.folder(id_at(version)), fs::perms(0777));
  }
  // A manifest that cannot be opened, and a folder of which one cannot even ask what is in it.
  fs::permissions(run.checkpoints.manifest(id_at(30)), fs::perms(0));
  Result<CheckpointFolder::Complete> complete = internal_error("not asked");
  Result<CheckpointFolder::Intact> intact = internal_error("not asked");
  Status abandoned, pruned;
  {
    const testing::UnwritableFolder hidden(run.checkpoints.folder(id_at(20)), fs::perms(0));
    complete = run.checkpoints.complete();
    intact = run.checkpoints.intact(ShardId(0));
    abandoned = run.checkpoints.abandon(id_at(20));
    const auto done = run.checkpoints.prune(1);
    pruned = done.status();
  }
  fs::permissions(run.checkpoints.manifest(id_at(30)), fs::perms(0644));
  REQUIRE(complete.is_ok());
  REQUIRE(complete->refused.size() == 2);
  for (const auto& one : complete->refused) CHECK(one.why.code() == StatusCode::kUnavailable);
  REQUIRE(intact.is_ok());
  REQUIRE(intact->refused.size() == 1);
  CHECK(intact->refused[0].id == id_at(20));
  CHECK(abandoned.code() == StatusCode::kUnavailable);
  CHECK(pruned.is_ok());
  CHECK(complete_of(run.checkpoints) == Ids{id_at(40), id_at(30), id_at(20)});
}

TEST_CASE("pruning leaves another configuration's checkpoints alone") {
  const Run run;
  write_whole(run.checkpoints, id_at(10));
  Manifest other;
  other.id = id_at(20);
  other.fingerprint = 1;
  const CheckpointFolder mine(run.folder.path(), 1);
  other.shards = {write_shard(mine, id_at(20), 0)};
  REQUIRE(write_manifest(mine.manifest(id_at(20)), other));
  REQUIRE(mine.prune(1).is_ok());
  CHECK(complete_of(run.checkpoints) == Ids{id_at(10)});
}

TEST_CASE("temporaries in a checkpoint that is kept go") {
  const Run run;
  write_whole(run.checkpoints, id_at(10));
  const fs::path folder = run.checkpoints.folder(id_at(10));
  for (const char* name : {".shard-0.7.0.tmp", ".shard-1.7.0.tmp", ".manifest.7.1.tmp", "other.tmp"}) {
    write_text(folder / name);
  }
  REQUIRE(run.checkpoints.prune(1).is_ok());
  CHECK(complete_of(run.checkpoints) == Ids{id_at(10)});
  CHECK(std::distance(fs::directory_iterator(folder), fs::directory_iterator()) == 4);
  CHECK(fs::exists(folder / "other.tmp"));
}

TEST_CASE("a damaged checkpoint is named, and the one before is the newest") {
  const Run run;
  for (const std::int64_t version : {10, 20}) write_whole(run.checkpoints, id_at(version));
  const fs::path newest = run.checkpoints.shard_file(id_at(20), ShardId(1));
  fs::resize_file(newest, fs::file_size(newest) - 1);
  const auto complete = run.checkpoints.complete();
  REQUIRE(complete.is_ok());
  REQUIRE(complete->refused.size() == 1);
  CHECK(complete->refused[0].id == id_at(20));
  CHECK_THAT(complete->refused[0].why.message(), Contains("shard-1: 207 bytes, its manifest says 208"));
  CHECK(complete_of(run.checkpoints) == Ids{id_at(10)});
  const auto intact = run.checkpoints.intact(ShardId(1));
  REQUIRE(intact.is_ok());
  REQUIRE(intact->refused.size() == 1);
  CHECK_THAT(intact->refused[0].why.message(), Contains("truncated"));
  CHECK(intact_of(run.checkpoints, 1) == Ids{id_at(10)});
  CHECK(intact_of(run.checkpoints, 0) == Ids{id_at(20), id_at(10)});
  // The one that is good stays, however few are to be kept.
  REQUIRE(run.checkpoints.prune(1).is_ok());
  CHECK(complete_of(run.checkpoints) == Ids{id_at(10)});
}

TEST_CASE("the files of a shard on another machine are not looked for here, the authority's own are") {
  const Run run;
  for (const std::int64_t version : {10, 20}) write_whole(run.checkpoints, id_at(version));
  fs::remove(run.checkpoints.shard_file(id_at(10), ShardId(1)));
  CHECK(complete_of(run.checkpoints) == Ids{id_at(20), id_at(10)});
  fs::remove(run.checkpoints.shard_file(id_at(20), ShardId(0)));
  CHECK(complete_of(run.checkpoints) == Ids{id_at(10)});
}

TEST_CASE("a file under another checkpoint's name is not taken for it") {
  const Run run;
  for (const std::int64_t version : {10, 20}) write_whole(run.checkpoints, id_at(version));
  fs::copy_file(run.checkpoints.manifest(id_at(10)), run.checkpoints.manifest(id_at(20)),
                fs::copy_options::overwrite_existing);
  fs::copy_file(run.checkpoints.shard_file(id_at(10), ShardId(0)),
                run.checkpoints.shard_file(id_at(20), ShardId(0)), fs::copy_options::overwrite_existing);
  CHECK(complete_of(run.checkpoints) == Ids{id_at(10)});
  CHECK(intact_of(run.checkpoints, 0) == Ids{id_at(10)});
}

TEST_CASE("another configuration's checkpoints are refused by name") {
  const Run run;
  write_whole(run.checkpoints, id_at(10));
  const auto complete = CheckpointFolder(run.folder.path(), 1).complete();
  REQUIRE(complete.is_ok());
  CHECK(complete->checkpoints.empty());
  REQUIRE(complete->refused.size() == 1);
  CHECK_THAT(complete->refused[0].why.message(), Contains("another configuration"));
}

TEST_CASE("a shard that shares no disk with the authority removes its own old files") {
  const Run run;
  for (const std::int64_t version : {10, 20, 30}) write_shard(run.checkpoints, id_at(version), 1);
  write_text(run.checkpoints.folder(id_at(10)) / ".shard-1.4711.0.tmp");
  write_shard(run.checkpoints, id_at(20), 0);  // somebody else's
  REQUIRE(run.checkpoints.prune_shard(ShardId(1), id_at(30)));
  CHECK(intact_of(run.checkpoints, 1) == Ids{id_at(30)});
  CHECK(intact_of(run.checkpoints, 0) == Ids{id_at(20)});
  CHECK_FALSE(fs::exists(run.checkpoints.folder(id_at(10))));
}

TEST_CASE("a save that has failed is removed, a complete one is not") {
  const Run run;
  write_whole(run.checkpoints, id_at(10));
  leave_behind(run.checkpoints, id_at(20), 4);
  REQUIRE(run.checkpoints.abandon(id_at(20)));
  CHECK_FALSE(fs::exists(run.checkpoints.folder(id_at(20))));
  CHECK(run.checkpoints.abandon(id_at(20)).is_ok());  // it has gone already
  CHECK(run.checkpoints.abandon(id_at(10)).code() == StatusCode::kFailedPrecondition);
  CHECK(complete_of(run.checkpoints) == Ids{id_at(10)});
}

TEST_CASE("names that are not ours are left alone") {
  const Run run;
  write_whole(run.checkpoints, id_at(10));
  write_whole(run.checkpoints, id_at(20));
  const fs::path root = run.folder / "checkpoint";
  const std::vector<std::string> others = {"bests",
                                           "g1-v10",
                                           "g1-v0000000000010",
                                           "g01-v000000000010",
                                           "g1-v-00000000010",
                                           "g1-v000000000010x",
                                           "g-v000000000010",
                                           "gx-v000000000010",
                                           "g0-v000000000010"};
  for (const std::string& name : others) fs::create_directories(root / name);
  write_text(root / "g1-v000000000005");  // a file, where a folder would be
  CHECK(complete_of(run.checkpoints) == Ids{id_at(20), id_at(10)});
  REQUIRE(run.checkpoints.clear());
  for (const std::string& name : others) CHECK(fs::exists(root / name));
  CHECK(complete_of(run.checkpoints).empty());
}

TEST_CASE("where nothing may be written or removed the reason is said") {
  const Run run;
  for (const std::int64_t version : {10, 20}) write_whole(run.checkpoints, id_at(version));
  const fs::path root = run.folder / "checkpoint";
  Status made, cleared;
  Result<CheckpointFolder::Pruned> pruned = internal_error("not pruned");
  {
    fs::permissions(run.folder.path(), fs::perms(0755));  // to be seen
    for (const std::int64_t version : {10, 20}) {
      fs::permissions(run.checkpoints.folder(id_at(version)), fs::perms(0555));
    }
    const testing::UnwritableFolder unwritable(root);
    made = run.checkpoints.make(id_at(30));
    pruned = run.checkpoints.prune(1);
    cleared = run.checkpoints.clear();
  }
  for (const std::int64_t version : {10, 20}) {
    fs::permissions(run.checkpoints.folder(id_at(version)), fs::perms(0755));
  }
  CHECK(made.code() == StatusCode::kUnavailable);
  CHECK_THAT(made.message(), Contains("g1-v000000000030: Permission denied"));
  REQUIRE(pruned.is_ok());
  CHECK(pruned->oldest_kept == id_at(20));
  CHECK(pruned->status.code() == StatusCode::kUnavailable);
  CHECK(cleared.code() == StatusCode::kUnavailable);
  CHECK(complete_of(run.checkpoints) == Ids{id_at(20), id_at(10)});
}

TEST_CASE("a folder whose name may not survive a crash is an error") {
  const Run run;
  write_whole(run.checkpoints, id_at(10));
  fs::permissions(run.folder / "checkpoint", fs::perms(0777));
  Status synced;
  {
    const testing::UnwritableFolder unreadable(run.folder.path(), fs::perms(0333));
    REQUIRE(run.checkpoints.make(id_at(20)).is_ok());
    synced = run.checkpoints.sync();
  }
  CHECK(synced.code() == StatusCode::kUnavailable);
  CHECK_THAT(synced.message(), Contains("cannot sync " + run.folder.path().string()));
}

TEST_CASE("a folder that is a file is an error, not an empty one") {
  const Run run;
  write_text(run.folder / "checkpoint");
  CHECK_FALSE(run.checkpoints.complete().is_ok());
  CHECK_FALSE(run.checkpoints.intact(ShardId(0)).is_ok());
  CHECK_FALSE(run.checkpoints.make(id_at(1)).is_ok());
}

}  // namespace
}  // namespace paceline::server
