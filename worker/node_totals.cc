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

void NodeTotals::add(const wire::WorkerReport& worker, std::int64_t parameter_reads,
                     std::int64_t server_reads) {
  wire::WorkerReport& into = report_.workers.at(worker.worker.thread);
  merge(into.phases, worker.phases);
  into.iterations += worker.iterations;
  into.skipped += worker.skipped;
  into.overruns += worker.overruns;
  into.bytes_early += worker.bytes_early;
  report_.parameter_reads += parameter_reads;
  report_.server_reads += server_reads;
}

}  // namespace paceline
