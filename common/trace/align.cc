#include "common/trace/align.h"

#include <algorithm>
#include <map>
#include <utility>

namespace paceline::trace {
namespace {

using std::chrono::nanoseconds;
using Iteration = std::pair<WorkerId, Clock>;

// When, on its own clock, a worker began the exchange after an iteration, and went on with an iteration.
struct Edges {
  std::map<Iteration, Ticks> reported;
  std::map<Iteration, Ticks> resumed;
};

// Two clocks that nobody corrects drift apart by at most 100 µs in a second: 50 ppm each, as quartzes do.
constexpr std::int64_t kDriftsOneIn = 10'000;

bool sends(Phase phase) { return phase == Phase::kStep || phase == Phase::kPsApplyGrads; }
bool reads(Phase phase) {
  return phase == Phase::kPsParam || phase == Phase::kPCacheParam || phase == Phase::kTCacheParam;
}

// Of an iteration that is done again, after a resume, the last time.
Edges edges_of(const Trace& trace) {
  Edges edges;
  for (const WorkerSpans& worker : trace.workers) {
    Phase before = Phase::kComputeGrads;
    for (const PhaseSpan& span : worker.spans) {
      const Iteration iteration{worker.worker, span.clock};
      if (sends(span.phase) && !sends(before)) edges.reported.insert_or_assign(iteration, span.begin);
      if (reads(span.phase) && !reads(before)) edges.resumed.insert_or_assign(iteration, span.begin);
      before = span.phase;
    }
  }
  return edges;
}

}  // namespace

Alignment alignment(const Trace& authority, const Process& decides, const Trace& of_node,
                    const Process& node) {
  if (!node.machine.empty() && node.machine == decides.machine) return {nanoseconds(0), nanoseconds(0)};
  const Edges edges = edges_of(of_node);
  std::optional<nanoseconds> least, most;
  Ticks first, last;  // of the decisions that bound
  const auto seen = [&](Ticks at) {
    if (!least && !most) first = at;
    last = at;
  };
  for (const Decision& decision : authority.decisions) {
    if (!decision.worker || !decision.clock) continue;
    const Iteration iteration{*decision.worker, *decision.clock};
    if (decision.kind == DecisionKind::kGranted) {
      const auto found = edges.resumed.find(iteration);
      if (found != edges.resumed.end()) {
        const nanoseconds bound = decision.at - found->second;
        seen(decision.at);
        least = std::max(least.value_or(bound), bound);
      }
    } else if (decision.kind == DecisionKind::kReported) {
      const auto found = edges.reported.find(iteration);
      if (found != edges.reported.end()) {
        const nanoseconds bound = decision.at - found->second;
        seen(decision.at);
        most = std::min(most.value_or(bound), bound);
      }
    }
  }
  if (least && most) {
    const nanoseconds apart = *most - *least;
    const nanoseconds drift =
        apart.count() < 0 ? std::max((last - first) / kDriftsOneIn, -apart) : nanoseconds(0);
    return {*least + apart / 2, (apart + nanoseconds(1)) / 2 + drift};
  }
  if (least || most) return {least ? *least : *most, std::nullopt};
  // Two clocks are decades apart in damaged parts only; clamped, no instant that is moved overflows.
  constexpr std::int64_t kApartMax = std::int64_t{1} << 61;
  return {nanoseconds(std::clamp(node.wall_ns - decides.wall_ns, -kApartMax, kApartMax)), std::nullopt};
}

}  // namespace paceline::trace
