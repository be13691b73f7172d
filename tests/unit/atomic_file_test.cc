// Atomic files: the old content or the new one, never a part, also when the disk is full.
#include "common/files/atomic_file.h"

#include <catch2/catch.hpp>

#include "tests/unit/file_size_limit.h"
#include "tests/unit/temp_folder.h"

using namespace paceline;
using Catch::Matchers::Contains;
using testing::FileSizeLimit;
using testing::TempFolder;

namespace {

std::ptrdiff_t files_in(const TempFolder& folder) {
  return std::distance(std::filesystem::directory_iterator(folder.path()),
                       std::filesystem::directory_iterator());
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
