// What balanced batches chose: from grants to summary.json and to the lines that people read.
#include "common/report/batch_sizes.h"

#include <catch2/catch.hpp>

#include "common/report/run_summary.h"
#include "tools/report_tables.h"

namespace paceline {
namespace {

using Catch::Contains;
using Sizes = std::vector<std::int64_t>;

sync::Grant grant_to(std::uint32_t node, std::uint32_t thread, std::int64_t clock, std::int64_t samples) {
  sync::Grant grant;
  grant.worker = WorkerId(node, thread);
  grant.clock = Clock(clock);
  grant.samples = samples;
  return grant;
}

RunSummary balanced_summary() {
  RunSummary summary;
  summary.policy = "dtssp";
  summary.nodes = 2;
  summary.threads_per_node = 2;
  summary.batch_sizes = WorkerBatchSizes{{40, 48, 16, 0}, {32, 32, 16, 0}, {48, 48, 32, 0}};
  return summary;
}

}  // namespace

TEST_CASE("the_last_the_smallest_and_the_largest_size_of_each_worker_are_kept") {
  BatchSizeRecord record({2, 1}, 32, 20);
  for (const std::int64_t samples : {32, 48, 40}) record.add(grant_to(0, 0, 0, samples));
  for (const std::int64_t samples : {32, 16, 24}) record.add(grant_to(1, 0, 0, samples));
  CHECK(record.sizes().last == Sizes{40, 24});
  CHECK(record.sizes().smallest == Sizes{32, 16});
  CHECK(record.sizes().largest == Sizes{48, 32});
}

TEST_CASE("a_last_clock_that_is_not_for_all_does_not_count") {
  BatchSizeRecord record({2, 1}, 32, 21);
  record.add(grant_to(0, 0, 9, 48));
  record.add(grant_to(0, 0, 10, 32));
  CHECK(record.sizes().last == Sizes{48, 0});
}

TEST_CASE("a_change_is_said_once_and_one_back_is_a_change_again") {
  BatchSizeRecord record({2, 2}, 32, 400);
  const auto all_get = [&](const Sizes& sizes) {
    for (std::uint32_t r = 0; r < 4; ++r) record.add(grant_to(r / 2, r % 2, 0, sizes[r]));
  };
  CHECK(record.change().empty());
  all_get({32, 32, 32, 32});
  CHECK(record.change().empty());
  all_get({40, 40, 24, 24});
  all_get({48, 40, 24, 16});
  CHECK(record.change() == "node 0: 40 to 48, node 1: 16 to 24");
  CHECK(record.change().empty());
  all_get({48, 40, 24, 16});
  CHECK(record.change().empty());
  all_get({32, 32, 32, 32});
  CHECK(record.change() == "node 0: 32, node 1: 32");
}

TEST_CASE("a_summary_has_the_sizes_of_each_worker_where_they_were_balanced") {
  const RunSummary summary = balanced_summary();
  const auto read = parse_summary(to_json(summary));
  REQUIRE(read);
  REQUIRE(read->batch_sizes);
  CHECK(read->batch_sizes->last == summary.batch_sizes->last);
  CHECK(read->batch_sizes->smallest == summary.batch_sizes->smallest);
  CHECK(read->batch_sizes->largest == summary.batch_sizes->largest);
  CHECK_THAT(to_json(RunSummary{}), !Contains("batch_sizes"));
}

TEST_CASE("sizes_that_are_not_one_for_each_worker_are_refused") {
  RunSummary summary = balanced_summary();
  summary.batch_sizes->smallest.pop_back();
  const Status status = parse_summary(to_json(summary)).status();
  CHECK(status.code() == StatusCode::kDataLoss);
  CHECK(status.message() == "batch_sizes: 3 sizes, expected 4");
}

TEST_CASE("a_report_prints_the_sizes_of_each_node") {
  FinishedRun run;
  run.name = "a";
  run.summary = balanced_summary();
  CHECK_THAT(phase_report(run), Contains("  mini-batches of node 0: 40 to 48 at last, 32 to 48 in the run\n"
                                         "  mini-batches of node 1: 16 at last, 16 to 32 in the run\n"));
  run.summary.batch_sizes.reset();
  CHECK_THAT(phase_report(run), !Contains("mini-batches"));
}

}  // namespace paceline
