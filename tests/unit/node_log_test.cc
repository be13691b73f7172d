// A node's log is its own: a second process of the same node does not take it.
#include "worker/node_log.h"

#include <sys/file.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <utility>

#include "common/log/log.h"
#include "common/process/line_writer.h"
#include "common/report/run_summary.h"
#include "tests/unit/temp_folder.h"

namespace paceline {
namespace {

using Catch::Contains;

TEST_CASE("a log that is there is refused and left alone unless it is to be replaced") {
  const testing::TempFolder folder;
  RunConfig config;
  config.run.out = (folder / "new/run").string();
  const auto first = prepare_node_log(config, NodeId(2), ExistingLog::kIsRefused);
  REQUIRE(first.is_ok());
  CHECK(first->file == folder / "new/run/worker-2.log");
  std::ofstream(first->file) << "a line of the live node";

  const auto second = prepare_node_log(config, NodeId(2), ExistingLog::kIsRefused);
  CHECK(second.status().code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(second.status().message(), Contains("worker-2.log") && Contains("--force"));
  CHECK(std::filesystem::file_size(first->file) > 0);
  CHECK(prepare_node_log(config, NodeId(3), ExistingLog::kIsRefused).is_ok());
}

TEST_CASE("a log is continued by the next process of its node, not beside the one before") {
  const testing::TempFolder folder;
  RunConfig config;
  config.run.out = folder.path().string();
  StandardError errors("test");
  auto first =
      prepare_node_log(config, NodeId(2), ExistingLog::kIsContinued);  // none there is none to refuse
  REQUIRE(first.is_ok());
  Log::open(first->file, "paceline-worker 2", "info", Log::Begin::kAppend, errors.writer())->info("begun");
  const auto beside = prepare_node_log(config, NodeId(2), ExistingLog::kIsContinued);
  CHECK_THAT(beside.status().message(), Contains("still alive"));

  first->lock.reset();
  const auto second = prepare_node_log(config, NodeId(2), ExistingLog::kIsContinued);
  REQUIRE(second.is_ok());
  Log::open(second->file, "paceline-worker 2", "info", Log::Begin::kAppend, errors.writer())->info("gone on");
  std::stringstream text;
  text << std::ifstream(second->file).rdbuf();
  CHECK_THAT(text.str(), Contains("begun") && Contains("gone on"));
}

TEST_CASE("a file system without locks is warned of, and the run goes on") {
  const testing::TempFolder folder;
  RunConfig config;
  config.run.out = folder.path().string();
  const auto no_locks = [](int, int) {
    errno = ENOLCK;
    return -1;
  };
  const auto log = prepare_node_log(config, NodeId(2), ExistingLog::kIsRefused, no_locks);
  REQUIRE(log.is_ok());
  CHECK(std::filesystem::exists(log->file));
  CHECK_THAT(log->warning, Contains("cannot lock") && Contains("worker-2.log") && Contains("No locks"));
  CHECK(prepare_node_log(config, NodeId(3), ExistingLog::kIsRefused)->warning.empty());
}

TEST_CASE("a log is replaced only when its process has ended") {
  const testing::TempFolder folder;
  RunConfig config;
  config.run.out = folder.path().string();
  auto first = prepare_node_log(config, NodeId(2), ExistingLog::kIsRefused);
  REQUIRE(first.is_ok());
  const std::filesystem::path file = first->file;
  std::ofstream(file) << "a line of the live node";
  const auto second = prepare_node_log(config, NodeId(2), ExistingLog::kIsReplaced);
  CHECK(second.status().code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(second.status().message(), Contains("worker-2.log") && Contains("still alive"));
  CHECK(std::filesystem::file_size(file) > 0);

  first->lock.reset();
  REQUIRE(prepare_node_log(config, NodeId(2), ExistingLog::kIsReplaced).is_ok());
  CHECK(std::filesystem::file_size(file) == 0);
}

// Its holder is not let in, and takes the log with it just when the next process has opened it.
TEST_CASE("a log that goes before it is locked is made again, and guarded") {
  const testing::TempFolder folder;
  RunConfig config;
  config.run.out = folder.path().string();
  static std::filesystem::path going;
  going = folder / "worker-2.log";
  const auto lock_when_gone = [](int file, int operation) {
    std::filesystem::remove(std::exchange(going, {}));
    return ::flock(file, operation);
  };
  const auto log = prepare_node_log(config, NodeId(2), ExistingLog::kIsRefused, lock_when_gone);
  REQUIRE(log.is_ok());
  const auto beside = prepare_node_log(config, NodeId(2), ExistingLog::kIsContinued);
  CHECK_THAT(beside.status().message(), Contains("still alive"));
}

TEST_CASE("the log of a run that ended well is replaced only by --force given twice") {
  const testing::TempFolder folder;
  RunConfig config;
  config.run.out = folder.path().string();
  DaemonOptions given;
  given.force = Force::kOnce;
  const std::filesystem::path file = folder / "worker-2.log";
  std::ofstream(file) << "a line of the run";
  REQUIRE(write_summary(folder.path(), RunSummary{}).is_ok());
  CHECK_THAT(check_unused(config, NodeId(2)).message(), Contains("--force --force"));
  const Status refused = prepare_node_log(config, NodeId(2), existing_log(given)).status();
  CHECK(refused.code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(refused.message(), Contains("has ended well") && Contains("--force --force"));
  CHECK(std::filesystem::file_size(file) > 0);

  given.force = Force::kTwice;
  REQUIRE(prepare_node_log(config, NodeId(2), existing_log(given)).is_ok());
  CHECK(std::filesystem::file_size(file) == 0);
}

TEST_CASE("a_node_that_was_not_let_in_leaves_nothing_that_its_next_start_is_refused_for") {
  const testing::TempFolder folder;
  RunConfig config;
  config.run.out = (folder / "run").string();
  const auto refused = prepare_node_log(config, NodeId(2), ExistingLog::kIsRefused);
  REQUIRE(refused.is_ok());
  forget_node_log(*refused, ExistingLog::kIsContinued);
  CHECK_FALSE(check_unused(config, NodeId(2)).is_ok());
  forget_node_log(*refused, ExistingLog::kIsRefused);
  CHECK(check_unused(config, NodeId(2)).is_ok());
  CHECK(std::filesystem::is_empty(folder / "run"));  // and there: another node may have come into it
}

}  // namespace
}  // namespace paceline
