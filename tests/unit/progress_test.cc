// progress.csv: bounded however long a run is, and read back.
#include "common/report/progress.h"

#include <catch2/catch.hpp>

#include "common/files/atomic_file.h"
#include "tests/unit/temp_folder.h"

namespace paceline {
namespace {

using Catch::Contains;

std::optional<std::int64_t> gap_of(WorkerId worker) {
  return worker.node == NodeId(1) ? std::nullopt : std::optional<std::int64_t>(worker.thread);
}

TEST_CASE("rows stay evenly apart and few, however long a run is") {
  ProgressRecord record({2, 1});
  for (int tick = 0; tick < 200'000; ++tick) {  // ten thousand seconds
    const double seconds = 0.05 * tick;
    if (record.due(seconds)) record.note(seconds, {tick, 0, 0}, gap_of);
  }
  const std::vector<ProgressRow>& rows = record.rows();
  CHECK((rows.size() > ProgressRecord::kRowsMax / 2 && rows.size() <= ProgressRecord::kRowsMax));
  CHECK((rows.front().seconds == 0.0 && rows[1].seconds > 10));
  CHECK(rows.back().seconds > 9'950);
  const double apart = rows[1].seconds - rows[0].seconds;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    CHECK(rows[i].seconds - rows[i - 1].seconds == Approx(apart).epsilon(0.01));
    CHECK(rows[i].moved.pushed == Approx(rows[i].seconds / 0.05));
  }
}

TEST_CASE("of many workers the first are noted") {
  ProgressRecord record({100, 4});
  record.note(0.0, {}, gap_of);
  CHECK(record.rows().front().gaps.size() == ProgressRecord::kWorkersMax);
}

TEST_CASE("what is written is read back, and what is broken is named") {
  const testing::TempFolder folder;
  ProgressRecord record({2, 2});
  record.note(0.0, {}, gap_of);
  record.note(0.1234567, {1, 1'000'000'000'000, 3, 4}, gap_of);
  REQUIRE(write_progress(folder.path(), record.rows()).is_ok());
  const auto rows = read_progress(folder.path());
  REQUIRE(rows.is_ok());
  REQUIRE(rows->size() == 2);
  CHECK((rows->back().seconds == 0.1234567 && rows->back().moved == record.rows().back().moved));
  CHECK((rows->back().gaps == std::vector<std::optional<std::int64_t>>{0, 1, {}, {}}));

  const std::string head = "seconds,bytes_pushed,bytes_pulled,bytes_shared,gaps\n0,0,0,0,0 1\n";
  const auto refused = [&](const std::string& row) {
    REQUIRE(write_file_atomically(folder / "progress.csv", head + row + "\n"));
    return read_progress(folder.path()).status().message();
  };
  CHECK_THAT(refused("-1,0,0,0,0 1"), Contains("progress.csv:3") && Contains("do not go back"));
  CHECK_THAT(refused("nan,0,0,0,0 1"), Contains("do not go back"));
  CHECK_THAT(refused("1,x,0,0,0 1"), Contains("progress.csv:3: bytes_pushed"));
  for (const char* gaps : {"0", "0 1 2", "0 x", "0 -1", "0  1"}) {
    CHECK_THAT(refused("1,0,0,0," + std::string(gaps)), Contains("a number or - for each worker"));
  }
}

}  // namespace
}  // namespace paceline
