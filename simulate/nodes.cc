#include "simulate/nodes.h"

#include <algorithm>
#include <utility>

namespace paceline::simulate {
namespace {

// Of a node that crashed and came back: what it was planned to do after the crash it did not.
void append_incarnation(std::vector<PhaseSpan>& to, const std::vector<PhaseSpan>& from) {
  if (from.empty()) return;
  while (!to.empty() && to.back().end() > from.front().begin) to.pop_back();
  to.insert(to.end(), from.begin(), from.end());
}

template <typename Each>
void sort_by_worker(std::vector<Each>& all) {
  std::stable_sort(all.begin(), all.end(), [](const Each& a, const Each& b) { return a.worker < b.worker; });
}

}  // namespace

Nodes::Nodes(const Surroundings& world) : world_(world), threads_(world.plan.cluster.threads_per_node) {
  for (std::uint32_t n = 0; n < world.plan.cluster.nodes; ++n) there_.push_back(add(NodeId(n)));
}

std::uint32_t Nodes::add(NodeId node) {
  const auto incarnation = static_cast<std::uint32_t>(nodes_.size());
  nodes_.emplace_back(node, incarnation, world_);
  presence_.push_back(Presence::kAbsent);
  return incarnation;
}

std::uint32_t Nodes::replace(std::uint32_t incarnation) {
  return std::exchange(there_[nodes_[incarnation].id().value], incarnation);
}

// One that crashed before never will.
bool Nodes::has_reported(std::uint32_t incarnation) const {
  const Node& node = nodes_[incarnation];
  return presence_[incarnation] != Presence::kAbsent && (!node.crashed() || node.reported());
}

Worker::Totals Nodes::totals() const {
  Worker::Totals sum;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (!has_reported(i)) continue;
    for (const Worker& worker : nodes_[i].workers()) sum += worker.totals();
  }
  return sum;
}

std::vector<WorkerPhases> Nodes::phases() const {
  std::vector<WorkerPhases> all;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (!has_reported(i)) continue;
    for (const Worker& worker : nodes_[i].workers()) all.push_back(worker.phases());
  }
  sort_by_worker(all);
  std::vector<WorkerPhases> joined;
  for (WorkerPhases& worker : all) {
    if (joined.empty() || joined.back().worker != worker.worker) {
      joined.push_back(std::move(worker));
    } else {
      merge(joined.back().totals, worker.totals);
    }
  }
  return joined;
}

std::vector<trace::WorkerSpans> Nodes::spans() const {
  std::vector<trace::WorkerSpans> all;
  for (const Node& node : nodes_) {
    for (const Worker& worker : node.workers()) worker.add_spans(all);
  }
  sort_by_worker(all);
  std::vector<trace::WorkerSpans> joined;
  for (trace::WorkerSpans& worker : all) {
    if (joined.empty() || joined.back().worker != worker.worker) {
      joined.push_back(std::move(worker));
      continue;
    }
    append_incarnation(joined.back().spans, worker.spans);
    joined.back().left_out += worker.left_out;
  }
  return joined;
}

}  // namespace paceline::simulate
