// The nodes of a simulated run by their incarnations (events.h), and which of these takes part: one that has
// come and is neither lost nor replaced. Workers are meant as events name them.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "common/ids.h"
#include "common/report/phases_csv.h"
#include "common/trace/trace.h"
#include "simulate/node.h"
#include "simulate/surroundings.h"
#include "simulate/worker.h"

namespace paceline::simulate {

// Thread: one.
class Nodes {
 public:
  // The first incarnation of each; none has come.
  explicit Nodes(const Surroundings& world);
  // One more of `node`, for later. Returns its number.
  std::uint32_t add(NodeId node);

  Node& operator[](std::uint32_t incarnation) { return nodes_[incarnation]; }
  // The last incarnation of `node` that stands for it, at first its first.
  std::uint32_t there(NodeId node) const { return there_[node.value]; }
  // This one stands for its node from now on; returns which did before.
  std::uint32_t replace(std::uint32_t incarnation);

  void come(std::uint32_t incarnation) { presence_[incarnation] = Presence::kThere; }
  void lose(std::uint32_t incarnation) { presence_[incarnation] = Presence::kLost; }
  bool takes_part(std::uint32_t incarnation) const { return presence_[incarnation] == Presence::kThere; }

  // By a worker's number.
  std::uint32_t incarnation_of(std::uint32_t worker) const { return worker / threads_; }
  std::uint32_t thread_of(std::uint32_t worker) const { return worker % threads_; }
  Node& of_worker(std::uint32_t worker) { return nodes_[incarnation_of(worker)]; }
  Worker& worker(std::uint32_t worker) { return of_worker(worker).worker(thread_of(worker)); }
  WorkerId id_of(std::uint32_t worker) const {
    return WorkerId(nodes_[incarnation_of(worker)].id(), thread_of(worker));
  }
  std::uint32_t number_of(WorkerId worker) const {
    return there_[worker.node.value] * threads_ + worker.thread;
  }

  // What those leave behind that came and reported: sums, and the phases by worker, of one that came back
  // those of all times.
  Worker::Totals totals() const;
  std::vector<WorkerPhases> phases() const;
  // Where run.trace is on, the stretches of all, by worker.
  std::vector<trace::WorkerSpans> spans() const;

 private:
  enum class Presence : std::uint8_t { kAbsent, kThere, kLost };
  bool has_reported(std::uint32_t incarnation) const;

  const Surroundings& world_;
  const std::uint32_t threads_;
  std::deque<Node> nodes_;            // by incarnation
  std::vector<Presence> presence_;    // by incarnation
  std::vector<std::uint32_t> there_;  // by node
};

}  // namespace paceline::simulate
