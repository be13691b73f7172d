// How old parameters were: counted from what is applied, written, read back; and what the runs of the
// simulator, worked out by hand, leave there.
#include "common/report/staleness.h"

#include <catch2/catch.hpp>

#include "common/files/atomic_file.h"
#include "tests/unit/simulate_fixture.h"
#include "tests/unit/temp_folder.h"

namespace paceline::test {
namespace {

using Catch::Contains;
using paceline::testing::TempFolder;
using Histogram = std::vector<std::pair<std::uint16_t, std::int64_t>>;

sync::Contributor gradient(std::uint32_t node, std::int64_t clock, std::int64_t version,
                           std::int64_t revision) {
  return {WorkerId(node, 0), Clock(clock), 32, Version(version), Revision(revision)};
}

// Every worker's, merged.
StalenessCounts in_clocks(const simulate::Outcome& run) {
  StalenessCounts all;
  for (const WorkerStaleness& worker : run.staleness) merge(all, worker.clocks);
  return all;
}

}  // namespace

TEST_CASE("a_gradient_s_staleness_is_counted_in_clocks_and_in_gradients_applied_meanwhile") {
  StalenessRecord record({4, 1});
  // The header's example: clock 8 of four workers, applied on top of revision 32.
  sync::Apply apply{
      {gradient(0, 8, 8, 32), gradient(1, 8, 7, 28), gradient(2, 8, 6, 24), gradient(3, 8, 8, 32)},
      {},
      CombineMode::kEach,
      Version(9),
      Revision(36)};
  record.add(apply);
  CHECK(record.workers()[2].clocks.histogram == Histogram{{2, 1}});
  CHECK(record.workers()[2].gradients.histogram == Histogram{{10, 1}});
  CHECK(record.workers()[0].gradients.histogram == Histogram{{0, 1}});
  CHECK(record.workers()[3].gradients.histogram == Histogram{{3, 1}});  // after three of its own clock
  apply.combine = CombineMode::kMean;                                   // all at once
  record.add(apply);
  CHECK(record.workers()[3].gradients.histogram == Histogram{{0, 1}, {3, 1}});
  CHECK(record.workers()[3].gradients.mean() == 1.5);
  CHECK(record.workers()[2].gradients.max == 10);
}

TEST_CASE("a_gradient_whose_worker_was_lost_before_its_report_has_no_staleness") {
  StalenessRecord record({2, 1});
  record.add({{{WorkerId(0, 0), Clock(5), 32}, gradient(1, 5, 5, 10)},
              {},
              CombineMode::kEach,
              Version(6),
              Revision(12)});
  CHECK(record.workers()[0].clocks.count == 0);
  CHECK(record.workers()[1].gradients.histogram == Histogram{{1, 1}});  // but it was applied
}

TEST_CASE("counts_of_several_workers_add_up_with_their_exact_sum_and_maximum") {
  StalenessCounts a, b;
  a.add(1000);
  b.add(3);
  b.add(1001, 2);
  merge(a, b);
  CHECK(a.count == 4);
  CHECK(a.sum == 3005);  // a bucket of that size holds sixteen numbers
  CHECK(a.max == 1001);
  CHECK(a.histogram.size() == 2);
}

TEST_CASE("staleness_csv_is_read_back_and_what_is_broken_is_named") {
  const TempFolder folder;
  std::vector<WorkerStaleness> workers{{WorkerId(0, 1), {}, {}}, {WorkerId(3, 0), {}, {}}};
  workers[0].clocks.add(0, 7);
  workers[0].clocks.add(2);
  workers[1].clocks.add(1, 8);
  workers[1].gradients.add(12345, 8);
  REQUIRE(write_staleness(folder.path(), workers));
  const auto read = read_staleness(folder.path());
  REQUIRE(read.is_ok());
  REQUIRE(read->size() == 2);
  CHECK((*read)[0].worker == WorkerId(0, 1));
  CHECK((*read)[0].clocks.histogram == workers[0].clocks.histogram);
  CHECK((*read)[0].clocks.sum == 2);
  CHECK((*read)[1].gradients.histogram == workers[1].gradients.histogram);

  const std::string head = "node,thread,unit,staleness,count\n";
  const std::pair<const char*, const char*> cases[] = {
      {"0,0,clocks,-1,5\n", ":2: staleness is '-1', expected 0 to"},
      {"0,0,hours,1,5\n", ":2: unit is 'hours', expected clocks or gradients"},
      {"0,0,clocks,1,0\n", ":2: count is '0', expected 1 to"},
      {"0,0,clocks,1\n", ":2: 4 cells, expected 5"},
      // 2^40 x 2^40, and rows that only together are too much to be added up.
      {"0,0,clocks,1099511627776,5\n", ":2: staleness is '1099511627776', expected 0 to 2147483648"},
      {"0,0,clocks,5,1099511627776\n", ":2: count is '1099511627776', expected 1 to 2147483648"},
      {"0,0,clocks,1048576,536870912\n0,1,gradients,1048576,536870913\n",
       ":3: count is '536870913', expected staleness times count up to 1125899906842624"}};
  for (const auto& [row, message] : cases) {
    REQUIRE(write_file_atomically(folder / "staleness.csv", head + row));
    CHECK_THAT(read_staleness(folder.path()).status().message(), Contains(message));
  }
}

TEST_CASE("under_bsp_nothing_is_stale_and_under_ssp_never_by_more_than_the_threshold") {
  CHECK(in_clocks(simulated({"sync.policy=bsp"})).histogram == Histogram{{0, 20}});
  const std::string slowdown = "simulate.compute.slowdown=[1, 2.5]";
  for (const std::int64_t s : {1, 3}) {
    const simulate::Outcome run =
        simulated({"sync.policy=ssp", "sync.threshold=" + std::to_string(s), slowdown});
    const StalenessCounts all = in_clocks(run);
    CHECK(all.count == 20);
    CHECK(all.max == s);                      // the fast worker stands at its bound
    CHECK(run.staleness[1].clocks.max == 0);  // the slow one's parameters lack nothing it needs
    REQUIRE(run.summary.staleness.has_value());
    CHECK(run.summary.staleness->clocks.max == s);
    CHECK(run.summary.staleness->clocks.mean == Approx(all.mean()));
  }
}

TEST_CASE("parameters_that_are_read_only_when_required_are_older") {
  const std::vector<std::string> ssp{"sync.policy=ssp", "sync.threshold=4", "cluster.nodes=4",
                                     "train.total_iterations=400", "simulate.compute.distribution=lognormal"};
  std::vector<std::string> lazy = ssp;
  lazy.emplace_back("sync.refresh_clocks=null");
  const StalenessCounts fresh = in_clocks(simulated(ssp)), old = in_clocks(simulated(lazy));
  CHECK(fresh.count == old.count);
  CHECK(old.mean() > fresh.mean() + 1.0);
  CHECK(old.max <= 4);
}

}  // namespace paceline::test
