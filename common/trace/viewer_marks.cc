#include "common/trace/viewer_marks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace paceline::trace {
namespace {

// One curve: points where its value changes.
class Curve {
 public:
  Curve(const char* name, const char* unit) : name_(name), unit_(unit) {}
  void at(Ticks at, double value, std::vector<CurvePoint>& points) {
    if (!std::isfinite(value) || last_ == value) return;
    last_ = value;
    points.push_back({at, name_, unit_, value});
  }

 private:
  const char* name_;
  const char* unit_;
  double last_ = std::numeric_limits<double>::quiet_NaN();  // equal to no value: there was none yet
};

// Who is held, decision by decision.
void follow(std::set<WorkerId>& held, const Decision& d) {
  if (d.kind == DecisionKind::kHeld && d.worker) held.insert(*d.worker);
  if ((d.kind == DecisionKind::kGranted || d.kind == DecisionKind::kFinished) && d.worker) {
    held.erase(*d.worker);
  }
  if (d.kind == DecisionKind::kLost && d.node) {
    std::erase_if(held, [&](WorkerId worker) { return worker.node == *d.node; });
  }
}

}  // namespace

std::vector<CurvePoint> curves_of(const Trace& trace) {
  std::vector<CurvePoint> points;
  Curve held("workers held", "workers"), threshold("threshold", "iterations"), lpr("LPR", "%");
  std::set<WorkerId> waiting;
  for (const Decision& d : trace.decisions) {
    follow(waiting, d);
    held.at(d.at, static_cast<double>(waiting.size()), points);
    if (d.threshold && !d.threshold->is_infinite()) {
      threshold.at(d.at, static_cast<double>(d.threshold->value()), points);
    }
    if (d.lpr) lpr.at(d.at, *d.lpr, points);
  }
  return points;
}

std::vector<Arrow> arrows_of(const Trace& trace) {
  std::map<std::pair<WorkerId, Clock>, const Decision*> grants;
  for (const Decision& d : trace.decisions) {
    if (d.kind == DecisionKind::kGranted && d.release == Release::kWorker && d.worker && d.clock && d.by) {
      grants.try_emplace({*d.worker, *d.clock}, &d);
    }
  }
  std::vector<Arrow> arrows;
  for (const WorkerSpans& worker : trace.workers) {
    for (const PhaseSpan& span : worker.spans) {
      if (span.phase != Phase::kBarrier || span.length.count() == 0) continue;
      const auto found = grants.find({worker.worker, span.clock});
      if (found == grants.end()) continue;
      const Decision& grant = *found->second;
      // Within the wait, so that a viewer binds it to that.
      const Ticks end = span.begin + (span.length - std::chrono::nanoseconds(1));
      arrows.push_back({*grant.by, std::min(grant.at, end), worker.worker, end});
    }
  }
  return arrows;
}

}  // namespace paceline::trace
