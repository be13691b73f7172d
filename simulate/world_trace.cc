// What a simulated run's processes would have recorded, in virtual time.
#include <algorithm>
#include <utility>

#include "simulate/world.h"

namespace paceline::simulate {
namespace {

// Of a node that crashed and came back: what it was planned to do after the crash it did not.
void append_incarnation(std::vector<PhaseSpan>& to, const std::vector<PhaseSpan>& from) {
  if (from.empty()) return;
  while (!to.empty() && to.back().end() > from.front().begin) to.pop_back();
  to.insert(to.end(), from.begin(), from.end());
}

trace::Process simulated_process(std::optional<ShardId> server, NodeId node) {
  trace::Process process;
  process.server = server;
  process.node = node;
  process.machine = "simulated";
  return process;
}

}  // namespace

void World::add_trace(Outcome& out) {
  trace::Trace whole;
  trace_->add_to(whole);
  whole.processes.push_back(simulated_process(kAuthority, NodeId(0)));
  for (std::uint32_t n = 0; n < plan_.cluster.nodes; ++n) {
    whole.processes.push_back(simulated_process(std::nullopt, NodeId(n)));
  }
  trace::Trace nodes;
  for (const Node& node : nodes_) node.add_spans(nodes);
  std::stable_sort(nodes.workers.begin(), nodes.workers.end(),
                   [](const auto& a, const auto& b) { return a.worker < b.worker; });
  for (trace::WorkerSpans& worker : nodes.workers) {
    if (whole.workers.empty() || whole.workers.back().worker != worker.worker) {
      whole.workers.push_back(std::move(worker));
      continue;
    }
    append_incarnation(whole.workers.back().spans, worker.spans);
    whole.workers.back().left_out += worker.left_out;
  }
  if (pipelines_ != nullptr) pipelines_->add_passes(whole);
  summary_.traced = {whole.events(), whole.left_out()};
  out.recorded = std::move(whole);
}

}  // namespace paceline::simulate
