// run.tensorboard, as far as a disk that fills up goes. What is in the files is read by others
// (tests/process/daemons/tensorboard_test.py).
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/report/curve.h"
#include "server/authority/run_record.h"
#include "tests/unit/file_size_limit.h"
#include "tests/unit/temp_folder.h"

namespace paceline::server {
namespace {

std::int64_t event_files_in(const std::filesystem::path& folder) {
  std::int64_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (is_event_file(entry.path().filename().string())) ++files;
  }
  return files;
}

// A record of fifteen windows, with what it warned of.
struct RecordedWindows {
  explicit RecordedWindows(bool tensorboard) {
    config.run.out = folder.path();
    config.run.tensorboard = tensorboard;
  }
  void train(rlim_t file_bytes_max) {
    auto record = RunRecord::open(config, log);
    REQUIRE(record.is_ok());
    const testing::FileSizeLimit disk(file_bytes_max);
    record->begin(Ticks(0), Threshold(3));
    for (std::int64_t k = 0; k < 15; ++k) {
      record->window({k, Version(10 * (k + 1)), 1.5, 0.5, 80, 2.0, Threshold(3)}, 20 * (k + 1),
                     Ticks(k * 1'000'000'000));
    }
  }

  const testing::TempFolder folder;
  RunConfig config;
  std::vector<std::string> warnings;
  const Log log = Log::to([this](LogLevel level, const std::string& text) {
    if (level >= LogLevel::kWarn) warnings.push_back(text);
  });
};

// Sessions of one run in one folder; the first begins at version 0.
struct Sessions {
  Sessions() {
    config.run.out = folder.path();
    config.run.tensorboard = true;
  }
  RunRecord begin(std::optional<std::int64_t> from = {}) {
    ++generation;
    auto record = from ? RunRecord::resume(config, {{}, Version(*from), 1.0, generation}, log)
                       : RunRecord::open(config, log);
    REQUIRE(record.is_ok());
    record->begin(Ticks(0), Threshold(3));
    return std::move(record).value();
  }
  static void windows(RunRecord& record, std::initializer_list<std::int64_t> versions) {
    for (const std::int64_t v : versions)
      record.window({v, Version(v), 1.5, 0.5, 80, 2.0, Threshold(3)}, v, Ticks(v));
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      if (is_event_file(entry.path().filename().string())) found.push_back(entry.path().filename().string());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  const testing::TempFolder folder;
  RunConfig config;
  std::uint64_t generation = 0;
  const Log log = Log::to([](LogLevel, const std::string&) {});
};

}  // namespace

TEST_CASE("a_full_disk_ends_what_tensorboard_is_told_with_one_warning_and_nothing_else") {
  RecordedWindows run(true);
  run.train(1000);  // enough for the curve, not for the events
  REQUIRE(run.warnings.size() == 1);
  CHECK_THAT(run.warnings[0], Catch::Contains("events.out.tfevents.") && Catch::Contains("File too large") &&
                                  Catch::Contains("run.tensorboard"));
  CHECK(read_curve(run.folder.path())->size() == 15);
}

TEST_CASE("how_training_goes_is_said_of_the_newest_version_however_late_an_evaluation_is") {
  const testing::TempFolder folder;
  RunConfig config;
  config.run.out = folder.path();
  const Log log = Log::to([](LogLevel, const std::string&) {});
  auto record = RunRecord::open(config, log);
  REQUIRE(record.is_ok());
  record->begin(Ticks(0), Threshold(3));
  const Metric test{8.0, 5, 10};
  const auto evaluated = [&](std::int64_t version, const Metric& trained) {
    MetricSum sum;
    sum += trained;
    record->evaluation(Version(version), {1.0, Threshold(3), version, sum}, test);
  };
  evaluated(10, {20.0, 1, 10});
  CHECK((record->newest().train_loss == 2.0 && record->newest().train_accuracy == 0.1));
  record->window({0, Version(20), 1.5, 0.5, 80, 2.0, Threshold(3)}, 20, Ticks(2));
  evaluated(15, {50.0, 4, 20});  // late
  CHECK((record->newest().train_loss == 1.5 && record->newest().train_accuracy == 0.5));
  evaluated(20, {60.0, 9, 30});  // the window has said it of that version
  CHECK((record->newest().train_loss == 1.5 && record->newest().train_accuracy == 0.5));
  evaluated(30, {65.0, 18, 40});
  CHECK((record->newest().train_loss == 0.5 && record->newest().train_accuracy == 0.9));
  const auto rows = read_curve(folder.path());
  REQUIRE(rows.is_ok());
  CHECK((rows->at(2).train_loss == 3.0 && rows->at(2).train_accuracy == 0.3));  // between 10 and 15
}

TEST_CASE("a_session_that_goes_on_removes_what_files_before_it_say_of_later_versions") {
  Sessions run;
  {
    RunRecord first = run.begin();
    Sessions::windows(first, {10, 20, 30, 40});
  }
  const std::vector<std::string> one = run.names();
  REQUIRE(one.size() == 1);
  const std::filesystem::path file = run.folder.path() / one[0];
  const auto bytes = std::filesystem::file_size(file);
  std::ofstream(file, std::ios::app) << "half a record";  // a crash
  {
    RunRecord second = run.begin(20);
    Sessions::windows(second, {30});
  }
  // A marker and four windows before; of each the record has the same length.
  const auto kept = std::filesystem::file_size(file);
  CHECK(kept < bytes);
  {
    RunRecord third = run.begin(20);
    Sessions::windows(third, {30, 40});
  }
  CHECK(std::filesystem::file_size(file) == kept);
  CHECK(run.names().size() == 3);
  CHECK(run.names().front() == one[0]);
}

TEST_CASE("the_names_of_event_files_grow_though_the_clock_goes_back") {
  Sessions run;
  const std::string future = "events.out.tfevents.9000000000.000001";
  std::ofstream(run.folder.path() / future) << "no record";
  {
    RunRecord resumed = run.begin(20);
  }
  REQUIRE(run.names().size() == 2);
  CHECK(run.names()[0] == future);
  CHECK(std::filesystem::file_size(run.folder.path() / future) == 9);  // it is nobody's, and stays
}

TEST_CASE("events_are_written_only_where_they_are_wanted") {
  RecordedWindows wanted(true), unwanted(false);
  wanted.train(1 << 20);
  unwanted.train(1 << 20);
  CHECK(event_files_in(wanted.folder.path()) == 1);
  CHECK(event_files_in(unwanted.folder.path()) == 0);
  CHECK(wanted.warnings.empty());
}

}  // namespace paceline::server
