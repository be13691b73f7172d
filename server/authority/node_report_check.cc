#include "server/authority/node_report_check.h"

#include <cstdint>
#include <string>

#include "common/timing/phase_totals.h"

namespace paceline::server {

Status check_report(NodeId from, const wire::NodeReport& report, const RunConfig& config,
                    const RunOutcome& state, const sync::Engine& engine, const RunRecord& record) {
  if (report.node != from) {
    return invalid_argument("report from node " + to_string(from) + " in the name of node " +
                            to_string(report.node));
  }
  const std::string who = "report of node " + to_string(from);
  if (record.has_report(from)) return out_of_order(who + ": it has reported already");
  const std::uint32_t threads = config.cluster.threads_per_node;
  if (report.workers.size() != threads) {
    return invalid_argument(who + ": got " + std::to_string(report.workers.size()) + " workers, expected " +
                            std::to_string(threads));
  }
  // In order, so that as many as there are threads are one of each.
  for (std::uint32_t t = 0; t < threads; ++t) {
    const wire::WorkerReport& worker = report.workers[t];
    const WorkerId expected(from, t);
    if (worker.worker != expected) {
      return invalid_argument(who + ": got worker " + to_string(worker.worker) + " at place " +
                              std::to_string(t) + ", expected " + to_string(expected));
    }
    PACELINE_RETURN_IF_ERROR(
        check(worker.phases).with_context("report of worker " + to_string(worker.worker)));
    if (state.is(RunStage::kGathering) || engine.is_live(expected)) {
      return failed_precondition(who + ": worker " + to_string(expected) + " is at clock " +
                                 to_string(engine.clock_of(expected)) + ", expected it to be finished");
    }
  }
  return Status::ok();
}

}  // namespace paceline::server
