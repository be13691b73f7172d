#include "common/page/page_trace.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "common/page/page_spans.h"

namespace paceline {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::nanoseconds;
using trace::Decision;
using trace::DecisionKind;

// Where every worker stands, as the authority sees it.
class Standing {
 public:
  void see(const Decision& d) {
    switch (d.kind) {
      case DecisionKind::kReported:
        if (clocks_.contains(*d.worker)) clocks_[*d.worker] = d.clock->next();
        break;
      case DecisionKind::kGranted:
      case DecisionKind::kHeld:
        clocks_[*d.worker] = *d.clock;
        break;
      case DecisionKind::kFinished:
        clocks_.erase(*d.worker);
        break;
      case DecisionKind::kLost:
        std::erase_if(clocks_, [&](const auto& at) { return at.first.node == *d.node; });
        break;
      default:
        break;
    }
  }
  Json gaps(const std::vector<WorkerId>& workers) const {
    Clock least;
    for (const auto& [worker, clock] : clocks_) {
      if (worker == clocks_.begin()->first || clock < least) least = clock;
    }
    Json gaps = Json::array();
    for (const WorkerId worker : workers) {
      const auto at = clocks_.find(worker);
      gaps.push_back(at == clocks_.end() ? Json() : Json((at->second - least).value));
    }
    return gaps;
  }

 private:
  std::map<WorkerId, Clock> clocks_;
};

// What see() reads is there: anybody may have written the file.
bool is_whole(const Decision& d) {
  switch (d.kind) {
    case DecisionKind::kReported:
    case DecisionKind::kGranted:
    case DecisionKind::kHeld:
      return d.worker && d.clock;
    case DecisionKind::kFinished:
      return d.worker.has_value();
    case DecisionKind::kLost:
      return d.node.has_value();
    default:
      return true;
  }
}

std::vector<WorkerId> shown_workers(const trace::Trace& trace, std::size_t most) {
  const std::size_t all = trace.workers.size();
  std::vector<WorkerId> shown;
  for (std::size_t i = 0; i < std::min(all, most); ++i) {
    shown.push_back(trace.workers[all <= most ? i : i * all / most].worker);
  }
  return shown;
}

// The heat map, of the decisions.
void add_gaps(Json& page, const trace::Trace& trace, const std::vector<WorkerId>& workers, Ticks origin,
              const PageTraceLimits& limits) {
  // Of what is rare older ones are kept than of the iterations' own (decision_log.h).
  const auto first = std::find_if(trace.decisions.begin(), trace.decisions.end(), [](const Decision& d) {
    return d.kind == DecisionKind::kReported || d.kind == DecisionKind::kGranted;
  });
  if (first == trace.decisions.end()) return;
  const Ticks begin = std::max(origin, first->at);
  const Ticks end = trace.decisions.back().at;
  const std::size_t stretches = std::max<std::size_t>(limits.stretches, 1);
  const auto stretch = std::max((end - begin) / static_cast<std::int64_t>(stretches), nanoseconds(1));
  page["from"] = to_seconds(begin - origin);
  page["stretch"] = to_seconds(stretch);

  Standing standing;
  auto next = trace.decisions.begin();
  for (std::size_t i = 1; i <= stretches; ++i) {
    const bool last = i == stretches;  // which has the last instant too
    const Ticks until = begin + static_cast<std::int64_t>(i) * stretch;
    for (; next != trace.decisions.end() && (last || next->at < until); ++next) {
      if (is_whole(*next)) standing.see(*next);
    }
    page["gaps"].push_back(standing.gaps(workers));
  }
}

// Of a trace without decisions, whose authority was killed: its earliest phase.
Ticks origin_of(const trace::Trace& trace) {
  if (trace.first_grant) return *trace.first_grant;
  if (!trace.decisions.empty()) return trace.decisions.front().at;
  std::optional<Ticks> first;
  for (const trace::WorkerSpans& worker : trace.workers) {
    if (!worker.spans.empty())
      first = std::min(first.value_or(worker.spans.front().begin), worker.spans.front().begin);
  }
  return first.value_or(Ticks());
}

}  // namespace

Json page_trace(const trace::Trace& trace, const PageTraceLimits& limits) {
  if (trace.workers.empty()) return Json::object();
  const Ticks origin = origin_of(trace);
  const std::vector<WorkerId> workers = shown_workers(trace, limits.workers);
  Json page = Json::object();
  if (!trace.first_grant && trace.decisions.empty()) page["origin"] = "the earliest phase that was kept";
  for (const WorkerId worker : workers) page["workers"].push_back(to_string(worker));
  add_gaps(page, trace, workers, origin, limits);

  std::vector<const trace::WorkerSpans*> spans;
  for (const WorkerId worker : workers) spans.push_back(trace.find(worker));
  add_spans(page, spans, origin, limits.spans);
  return page;
}

}  // namespace paceline
