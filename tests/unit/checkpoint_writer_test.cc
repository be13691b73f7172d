// Writing images while the loop goes on: one at a time.
#include <atomic>
#include <catch2/catch.hpp>
#include <deque>
#include <filesystem>
#include <limits>
#include <system_error>
#include <thread>

#include "server/checkpoint/writer.h"
#include "tests/unit/checkpoint_fixture.h"
#include "tests/unit/file_size_limit.h"
#include "tests/unit/temp_folder.h"

namespace paceline::server {
namespace {

constexpr std::int64_t kFewFloats = 5;

// A background whose work is done when the test says so.
class Later final : public Background {
 public:
  using Background::run;
  void run(Work work, Done done, Here) override { given_.emplace_back(std::move(work), std::move(done)); }
  void do_next() {
    REQUIRE_FALSE(given_.empty());
    auto [work, done] = std::move(given_.front());
    given_.pop_front();
    const Status result = std::exchange(work, {})();
    done(result, Ticks());
  }
  std::size_t given() const { return given_.size(); }

 private:
  std::deque<std::pair<Work, Done>> given_;
};

struct Outcome {
  std::vector<std::pair<CheckpointId, Status>> all;
  ShardWriter::Done noting() {
    return [this](CheckpointId id, const Result<FileDigest>& written, Ticks) {
      all.emplace_back(id, written.status());
    };
  }
};

struct Writing {
  testing::TempFolder run;
  CheckpointFolder folder{run.path(), kTestFingerprint};
  Later background;
  ShardWriter writer{background, folder, owner_of(kFewFloats)};
  Outcome received;
};

TEST_CASE("an image is written after the loop's back, and its digest is that of the file") {
  Writing w;
  Result<FileDigest> digest = internal_error("not told");
  REQUIRE(w.writer.write(image_of(kFewFloats, 7),
                         [&](CheckpointId, const Result<FileDigest>& written, Ticks) { digest = written; }));
  CHECK(w.writer.busy());
  CHECK_FALSE(digest.is_ok());
  w.background.do_next();
  CHECK_FALSE(w.writer.busy());
  REQUIRE(digest.is_ok());
  const auto intact = w.folder.intact(ShardId(0));
  REQUIRE(intact.is_ok());
  REQUIRE(intact->files.size() == 1);
  CHECK(intact->files[0].version == Version(7));
  CHECK(intact->files[0].digest == *digest);
}

TEST_CASE("another shard that empties the folder meanwhile costs no checkpoint") {
  Writing w;
  std::atomic<bool> over = false;
  std::thread other([&] {
    while (!over) {
      (void)w.folder.prune_shard(ShardId(1), {std::numeric_limits<std::uint64_t>::max(), Version(0)});
    }
  });
  for (std::int64_t version = 1; version <= 100; ++version) {
    if (w.writer.write(image_of(kFewFloats, version), w.received.noting())) w.background.do_next();
  }
  over = true;
  other.join();
  REQUIRE(w.received.all.size() == 100);
  for (const auto& [id, status] : w.received.all) {
    INFO(to_string(id) << ": " << status.message());
    CHECK(status.is_ok());
  }
}

TEST_CASE("a folder that goes while its file is being written costs that checkpoint, and no other") {
  constexpr std::int64_t kSomeChunks = 600'000;
  Writing w;
  const std::filesystem::path file = w.folder.shard_file({1, Version(7)}, ShardId(0));
  const auto is_being_written = [folder = file.parent_path()] {
    std::error_code gone;
    for (std::filesystem::directory_iterator at(folder, gone), end; !gone && at != end; at.increment(gone)) {
      if (at->path().extension() == ".tmp") return true;
    }
    return false;
  };
  std::atomic<bool> over = false;
  std::thread other([&] {
    std::error_code ignored;
    while (!over) {
      if (is_being_written()) std::filesystem::remove_all(w.run / "checkpoint", ignored);
    }
  });
  const auto written = [&] {
    ShardWriter writer(w.background, w.folder, owner_of(kSomeChunks));
    REQUIRE(writer.write(image_of(kSomeChunks, 7), w.received.noting()));
    w.background.do_next();
    return w.received.all.back().second;
  };
  Status status;
  for (int tries = 0; tries < 1000 && status.is_ok(); ++tries) status = written();
  over = true;
  other.join();
  CHECK(status.code() == StatusCode::kNotFound);
  CHECK(written().is_ok());
}

TEST_CASE("what is to be saved while one is being written is skipped and counted, not queued") {
  Writing w;
  REQUIRE(w.writer.write(image_of(kFewFloats, 7), w.received.noting()));
  CHECK_FALSE(w.writer.write(image_of(kFewFloats, 8), w.received.noting()));
  CHECK_FALSE(w.writer.write(image_of(kFewFloats, 9), w.received.noting()));
  CHECK(w.writer.skipped() == 2);
  CHECK(w.background.given() == 1);
  w.background.do_next();
  REQUIRE(w.writer.write(image_of(kFewFloats, 10), w.received.noting()));
  w.background.do_next();
  REQUIRE(w.received.all.size() == 2);
  CHECK(w.received.all[0].first == CheckpointId{1, Version(7)});
  CHECK(w.received.all[1].first == CheckpointId{1, Version(10)});
}

TEST_CASE("an image has been let go of when its end is told") {
  Writing w;
  ShardImage image = image_of(kFewFloats, 7);
  const BlockRef block = image.parameters.ref(0);
  bool unique = false;
  REQUIRE(w.writer.write(std::move(image),
                         [&](CheckpointId, const Result<FileDigest>&, Ticks) { unique = block.unique(); }));
  w.background.do_next();
  CHECK(unique);
}

TEST_CASE("a full disk is told, and the next save goes on") {
  Writing w;
  REQUIRE(w.writer.write(image_of(kFewFloats, 7), w.received.noting()));
  {
    const testing::FileSizeLimit full(100);
    w.background.do_next();
  }
  REQUIRE(w.writer.write(image_of(kFewFloats, 8), w.received.noting()));
  w.background.do_next();
  REQUIRE(w.received.all.size() == 2);
  CHECK(w.received.all[0].second.code() == StatusCode::kResourceExhausted);
  CHECK(w.received.all[1].second.is_ok());
}

}  // namespace
}  // namespace paceline::server
