// What `paceline explain` found, for programs.
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tools/explain_costliest.h"
#include "tools/explain_text.h"

namespace paceline {
namespace {

using std::chrono::nanoseconds;
using Json = nlohmann::ordered_json;

Json json_of(const TimesByPhase& times) {
  Json json = Json::object();
  for (std::size_t p = 0; p < kPhaseCount; ++p) {
    if (times[p].count() > 0) json[kPhaseNames[p]] = to_seconds(times[p]);
  }
  return json;
}

Json json_of(const Wait& wait, const trace::Trace& trace) {
  Json json{{"worker", to_string(wait.worker)},
            {"clock", wait.clock.value},
            {"at_seconds", to_seconds(since_start(trace, wait.begin))},
            {"waited_seconds", to_seconds(wait.length)}};
  for (std::size_t c = 0; c < kWaitCauses.size(); ++c) {
    json["causes"][kWaitCauses[c]] = to_seconds(wait.causes[c]);
  }
  for (const auto& [key, cause] :
       {std::pair("sum_for_seconds", WaitCause::kSum), std::pair("lost_seconds", WaitCause::kFormation)}) {
    for (const auto& [worker, time] : doing_of(wait, cause)) json[key][to_string(worker)] = to_seconds(time);
  }
  json["evaluating_seconds"] = to_seconds(wait.evaluating);
  if (wait.whom) {
    json["for"] = to_string(*wait.whom);
    json["meanwhile_seconds"] = json_of(wait.of_whom);
  }
  if (wait.hold) {
    json["held"] = {{"at_seconds", to_seconds(since_start(trace, wait.hold->at))}};
    if (wait.hold->by) json["held"]["slowest"] = to_string(*wait.hold->by);
    if (wait.hold->min_clock) json["held"]["min_clock"] = wait.hold->min_clock->value;
  }
  if (const auto& decision = wait.hold ? wait.hold : wait.grant) {
    if (decision->threshold) {
      json["threshold"] =
          decision->threshold->is_infinite() ? Json("inf") : Json(decision->threshold->value());
    }
    json["lpr"] = decision->lpr ? Json(*decision->lpr) : Json(nullptr);
  }
  if (wait.grant) {
    json["granted"] = {{"at_seconds", to_seconds(since_start(trace, wait.grant->at))}};
    if (wait.grant->release) json["granted"]["released_by"] = name_of(*wait.grant->release);
    if (wait.grant->by) json["granted"]["by"] = to_string(*wait.grant->by);
  }
  json["then_seconds"] = json_of(wait.then);
  return json;
}

Json json_of(const CostlyWait& entry, const trace::Trace& trace) {
  const Wait& longest = *entry.waits.front();
  Json json{{"at_seconds", to_seconds(since_start(trace, entry.begin))},
            {"seconds", to_seconds(entry.time)},
            {"waiting", Json::array()}};
  for (const Wait* wait : entry.waits) {
    json["waiting"].push_back({{"worker", to_string(wait->worker)}, {"clock", wait->clock.value}});
  }
  if (longest.whom) json["for"] = to_string(*longest.whom);
  if (entry.whom_at) json["for_at_clock"] = entry.whom_at->value;
  return json;
}

}  // namespace

std::string explained_json(const Explained& e, const trace::Trace& trace) {
  Json json{{"run", e.run},
            {"waits", e.waits.size()},
            {"waited_seconds", to_seconds(e.waited)},
            {"worker_seconds", to_seconds(e.worker_time)},
            {"left_out", trace.left_out()}};
  json["without_phases"] = Json::array();
  for (const WorkerId worker : trace.without_spans()) json["without_phases"].push_back(to_string(worker));
  json["causes"] = Json::array();
  for (const CauseCost& cost : e.causes) {
    if (e.cause && cost.cause != *e.cause) continue;
    Json one{{"cause", name_of(cost.cause)}, {"seconds", to_seconds(cost.total)}, {"workers", Json::array()}};
    for (const auto& [worker, time] : cost.workers) {
      one["workers"].push_back({{"worker", to_string(worker)}, {"seconds", to_seconds(time)}});
    }
    one["of_unknown_seconds"] = to_seconds(cost.of_unknown);
    one["waiting"] = Json::array();
    for (const auto& [worker, time] : cost.waiting) {
      one["waiting"].push_back({{"worker", to_string(worker)}, {"seconds", to_seconds(time)}});
    }
    one["costliest"] = Json::array();
    for (const CostlyWait& entry : costliest_of(e.waits, cost.cause, kCostliest)) {
      one["costliest"].push_back(json_of(entry, trace));
    }
    json["causes"].push_back(std::move(one));
  }
  json["costliest"] = Json::array();
  if (!e.cause) {
    for (const Wait& wait : costliest(e.waits, kCostliest)) json["costliest"].push_back(json_of(wait, trace));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string wait_json(const Wait& wait, const trace::Trace& trace) {
  return json_of(wait, trace).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace paceline
