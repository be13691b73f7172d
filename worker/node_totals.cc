#include "worker/node_totals.h"

#include <utility>

namespace paceline {

NodeTotals::NodeTotals(NodeId node, std::uint32_t threads) {
  report_.node = node;
  for (std::uint32_t t = 0; t < threads; ++t) {
    wire::WorkerReport worker;
    worker.worker = WorkerId(node, t);
    report_.workers.push_back(std::move(worker));
  }
}

void NodeTotals::add(const WorkDone& done) {
  wire::WorkerReport& into = report_.workers.at(done.worker.thread);
  merge(into.phases, done.phases);
  into.iterations += done.iterations;
  into.skipped += done.skipped;
  into.overruns += done.overruns;
  into.bytes_early += done.bytes_early;
  report_.parameter_reads += done.parameter_reads;
  report_.server_reads += done.server_reads;
}

}  // namespace paceline
