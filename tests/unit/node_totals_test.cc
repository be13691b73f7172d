// A node's sums over its sessions are what its report says.
#include "worker/node_totals.h"

#include <catch2/catch.hpp>

namespace paceline {
namespace {

WorkDone work_done(WorkerId worker, std::int64_t batch_ns, std::int64_t iterations, std::int64_t reads,
                   std::int64_t server_reads) {
  WorkDone done{.worker = worker,
                .iterations = iterations,
                .skipped = 1,
                .overruns = 2,
                .bytes_early = 3,
                .parameter_reads = reads,
                .server_reads = server_reads};
  done.phases[Phase::kBatch] = {1, batch_ns, 0, {}};
  done.phases.wall_ns = batch_ns + 1;
  return done;
}

TEST_CASE("a_node_that_has_done_nothing_reports_all_its_workers_in_order") {
  const NodeTotals totals(NodeId(3), 2);
  CHECK(totals.report().node == NodeId(3));
  REQUIRE(totals.report().workers.size() == 2);
  CHECK(totals.report().workers[1].worker == WorkerId(3, 1));
  CHECK(totals.report().workers[1].phases.wall_ns == 0);
}

TEST_CASE("what_a_worker_did_in_each_session_adds_up") {
  NodeTotals totals(NodeId(0), 2);
  totals.add(work_done(WorkerId(0, 0), 100, 10, 10, 4));
  totals.add(work_done(WorkerId(0, 1), 70, 7, 7, 7));
  totals.add(work_done(WorkerId(0, 0), 50, 5, 6, 5));
  const wire::NodeReport& report = totals.report();
  CHECK((report.parameter_reads == 23 && report.server_reads == 16));
  const wire::WorkerReport& first = report.workers[0];
  CHECK(first.iterations == 15);
  CHECK((first.skipped == 2 && first.overruns == 4 && first.bytes_early == 6));
  CHECK(first.phases[Phase::kBatch].total_ns == 150);
  CHECK(first.phases.wall_ns == 152);
  CHECK(report.workers[1].iterations == 7);
}

}  // namespace
}  // namespace paceline
