// Atomic files: the old content or the new one, never a part, also when the disk is full.
#include "common/files/atomic_file.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/unit/file_size_limit.h"
#include "tests/unit/temp_folder.h"
#include "tests/unit/unwritable_folder.h"

using namespace paceline;
using Catch::Contains;
using testing::FileSizeLimit;
using testing::TempFolder;

namespace {

std::ptrdiff_t files_in(const TempFolder& folder) {
  return std::distance(std::filesystem::directory_iterator(folder.path()),
                       std::filesystem::directory_iterator());
}

// The name of the temporary that is in the folder, as what comes before and after its number, and that.
struct TemporaryName {
  std::string before;
  unsigned number = 0;
  std::string with(unsigned another) const { return before + std::to_string(another) + ".tmp"; }
};

TemporaryName temporary_in(const TempFolder& folder, const std::string& path) {
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (!is_temporary_of(entry.path(), folder / path)) continue;
    const std::string name = entry.path().stem().string();
    const std::size_t dot = name.rfind('.');
    return {name.substr(0, dot + 1), static_cast<unsigned>(std::stoul(name.substr(dot + 1)))};
  }
  FAIL("no temporary of " + path);
  return {};
}

}  // namespace

TEST_CASE("a_file_is_replaced_whole_and_nothing_else_is_left") {
  const TempFolder folder;
  REQUIRE(write_file_atomically(folder / "a.txt", "a long first content"));
  REQUIRE(write_file_atomically(folder / "a.txt", "second"));
  CHECK(read_file(folder / "a.txt", 100).value() == "second");
  CHECK(files_in(folder) == 1);
}

TEST_CASE("a_full_disk_leaves_the_old_content_and_no_temporary_file") {
  const TempFolder folder;
  REQUIRE(write_file_atomically(folder / "a.txt", "old"));
  Status status;
  {
    const FileSizeLimit limit(4096);
    status = write_file_atomically(folder / "a.txt", std::string(10'000, 'x'));
  }
  CHECK(status.code() == StatusCode::kResourceExhausted);
  CHECK_THAT(status.message(), Contains("a.txt"));
  CHECK(read_file(folder / "a.txt", 100).value() == "old");
  CHECK(files_in(folder) == 1);
}

// As after a kill -9 in a container, whose processes all have the same number.
TEST_CASE("temporaries_that_others_have_left_are_in_nobodys_way") {
  const TempFolder folder;
  TemporaryName next;
  {
    const auto open = AtomicFile::create(folder / "a.txt");
    REQUIRE(open.is_ok());
    next = temporary_in(folder, "a.txt");
  }
  REQUIRE(files_in(folder) == 0);
  const auto leave = [&](unsigned from, unsigned count) {
    for (unsigned i = 0; i < count; ++i) std::ofstream(folder / next.with(from + i)) << "left";
  };
  leave(next.number + 1, 99);
  REQUIRE(write_file_atomically(folder / "a.txt", "new"));
  CHECK(read_file(folder / "a.txt", 100).value() == "new");
  CHECK(read_file(folder / next.with(next.number + 1), 100).value() == "left");
  leave(next.number + 101, 100);
  const Status status = write_file_atomically(folder / "a.txt", "newer");
  CHECK(status.code() == StatusCode::kUnavailable);
  CHECK_THAT(status.message(), Contains("a.txt: File exists"));
}

TEST_CASE("a_folder_that_cannot_be_synced_is_an_error") {
  const TempFolder folder;
  Status written, synced;
  {
    // Files can be made in it, but it cannot be opened.
    const testing::UnwritableFolder unreadable(folder.path(), std::filesystem::perms(0333));
    written = write_file_atomically(folder / "a.txt", "x");
    synced = sync_folder(folder.path());
  }
  CHECK(written.code() == StatusCode::kUnavailable);
  CHECK_THAT(written.message(), Contains("cannot sync " + folder.path().string() + ": Permission denied"));
  CHECK(synced.message() == written.message());
  CHECK(read_file(folder / "a.txt", 100).value() == "x");
  CHECK(sync_folder(folder.path()).is_ok());
  CHECK(sync_folder(folder / "none").code() == StatusCode::kNotFound);
}

TEST_CASE("a_missing_folder_or_file_is_named") {
  const TempFolder folder;
  const Status write = write_file_atomically(folder / "none/a.txt", "x");
  CHECK(write.code() == StatusCode::kNotFound);
  CHECK_THAT(write.message(), Contains("none/a.txt") && Contains("No such file"));
  CHECK(read_file(folder / "a.txt", 100).status().code() == StatusCode::kNotFound);
  CHECK(read_file(folder.path(), 1 << 20).status().code() == StatusCode::kUnavailable);
}

TEST_CASE("a_file_larger_than_allowed_is_not_read") {
  const TempFolder folder;
  REQUIRE(write_file_atomically(folder / "a.txt", "12345"));
  CHECK(read_file(folder / "a.txt", 5).value() == "12345");
  CHECK(read_file(folder / "a.txt", 4).status().code() == StatusCode::kResourceExhausted);
}
