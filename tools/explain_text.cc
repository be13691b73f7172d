#include "tools/explain_text.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace paceline {
namespace {

using std::chrono::nanoseconds;
using Json = nlohmann::ordered_json;

constexpr std::size_t kWorkersNamed = 3;  // of a cause
constexpr std::size_t kPhasesNamed = 3;   // of what a worker did meanwhile
constexpr std::size_t kMissingNamed = 8;  // of those without spans

[[gnu::format(printf, 1, 2)]] std::string printed(const char* format, ...) {
  char text[256];
  std::va_list values;
  va_start(values, format);
  std::vsnprintf(text, sizeof text, format, values);
  va_end(values);
  return text;
}

std::string ms(nanoseconds d) { return printed("%.3f ms", static_cast<double>(d.count()) * 1e-6); }
std::string seconds(nanoseconds d) { return printed("%.3f s", to_seconds(d)); }
double share(nanoseconds part, nanoseconds whole) {
  return whole.count() > 0 ? static_cast<double>(part.count()) / static_cast<double>(whole.count()) : 0.0;
}

// Seconds are counted from the first grant, as in curve.csv, or from the trace's begin where it is not there.
nanoseconds since_start(const trace::Trace& trace, Ticks at) {
  if (trace.first_grant) return at - *trace.first_grant;
  Ticks first = at;
  for (const trace::WorkerSpans& worker : trace.workers) {
    if (!worker.spans.empty()) first = std::min(first, worker.spans.front().begin);
  }
  return at - first;
}

// "COMPUTE_GRADS 118.200 ms, PS_APPLY_GRADS 2.200 ms": the most of it.
std::string longest_of(const PhaseTimes& times) {
  std::vector<std::size_t> order;
  for (std::size_t p = 0; p < kPhaseCount; ++p) {
    if (times[p].count() > 0) order.push_back(p);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return times[a] > times[b]; });
  if (order.size() > kPhasesNamed) order.resize(kPhasesNamed);
  std::string text;
  for (const std::size_t p : order) {
    text += (text.empty() ? "" : ", ") + std::string(kPhaseNames[p]) + " " + ms(times[p]);
  }
  return text;
}

std::string lpr_of(const trace::Decision& decision) {
  return decision.lpr ? printed(", LPR %.2f %%", *decision.lpr) : ", no LPR yet";
}

// "3 ahead of worker 1.0 (clock 5), threshold 2, LPR 1.83 %"
std::string why_held(const Wait& wait) {
  const auto& said = wait.hold ? wait.hold : wait.grant;
  if (!said) return "held by the threshold; the decision is left out of the trace";
  std::string text;
  if (wait.hold && wait.hold->by && wait.hold->min_clock) {
    text = to_string(wait.clock - *wait.hold->min_clock) + " ahead of worker " + to_string(*wait.hold->by) +
           " (clock " + to_string(*wait.hold->min_clock) + ")";
  } else {
    text = "ahead of the slowest";
  }
  if (said->threshold) text += ", threshold " + to_string(*said->threshold);
  return text + lpr_of(*said);
}

std::string why_released(const trace::Decision& grant) {
  switch (grant.release.value_or(trace::Release::kOther)) {
    case trace::Release::kWorker:
      return grant.by ? "worker " + to_string(*grant.by) + " moved on" : "a worker moved on";
    case trace::Release::kThreshold:
      return "the threshold rose to " + (grant.threshold ? to_string(*grant.threshold) : "?");
    case trace::Release::kLoss:
      return grant.by ? "node " + to_string(grant.by->node) + " was lost" : "a node was lost";
    case trace::Release::kOther:
      break;
  }
  return "it was granted";
}

std::string short_why(const Wait& wait) {
  std::string text;
  for (std::size_t c = 0; c < kWaitCauses.size(); ++c) {
    const nanoseconds time = wait.causes[c];
    if (time * 20 < wait.length) continue;  // what is less than 5 % of it explains nothing
    if (!text.empty()) text += ", ";
    text += std::string(kWaitCauses[c]) + " " + ms(time);
    if (static_cast<WaitCause>(c) == WaitCause::kBarrier && wait.whom) {
      text += " for " + to_string(*wait.whom);
      const std::string meanwhile = longest_of(wait.of_whom);
      if (!meanwhile.empty()) text += " (" + meanwhile.substr(0, meanwhile.find(',')) + ")";
    }
  }
  if (wait.evaluating * 20 >= wait.length && wait.evaluating.count() > 0) {
    text += ", " + ms(wait.evaluating) + " of it while a node evaluated";
  }
  return text;
}

std::string left_out_of(const trace::Trace& trace) {
  if (trace.left_out() == 0) return "";
  return "The trace has " + std::to_string(trace.events()) + " events; " + std::to_string(trace.left_out()) +
         " older ones are left out (run.trace_events).\n";
}

// Of a run that failed, or whose nodes were elsewhere: their 0 waits are none that anybody counted.
std::string missing_of(const std::string& run, const trace::Trace& trace) {
  const std::vector<WorkerId> missing = trace.without_spans();
  if (missing.empty()) return "";
  std::string names;
  for (std::size_t i = 0; i < std::min(missing.size(), kMissingNamed); ++i) {
    names += (i == 0 ? "" : ", ") + to_string(missing[i]);
  }
  if (missing.size() > kMissingNamed) names += printed(" and %zu more", missing.size() - kMissingNamed);
  return "Nothing is known of the waits of " + names +
         ": the trace has decisions about them, but no phases. Bring their nodes' trace-node-*.json into " +
         run + " and call paceline trace " + run + ".\n";
}

// How far the clocks of machines may be apart.
std::string clocks_of(const trace::Trace& trace) {
  nanoseconds worst{0};
  std::string unknown;
  for (const trace::Process& process : trace.processes) {
    if (!process.error) {
      unknown += (unknown.empty() ? "" : ", ") + to_string(process);
    } else {
      worst = std::max(worst, *process.error);
    }
  }
  std::string text;
  if (worst.count() > 0) text += "Clocks of machines are compared to " + ms(worst) + ".\n";
  if (!unknown.empty()) {
    text += "By wall clocks or one-sided bounds, which nothing checks: " + unknown + ".\n";
  }
  return text;
}

Json json_of(const PhaseTimes& times) {
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
  if (const auto& said = wait.hold ? wait.hold : wait.grant) {
    if (said->threshold) {
      json["threshold"] = said->threshold->is_infinite() ? Json("inf") : Json(said->threshold->value());
    }
    json["lpr"] = said->lpr ? Json(*said->lpr) : Json(nullptr);
  }
  if (wait.grant) {
    json["granted"] = {{"at_seconds", to_seconds(since_start(trace, wait.grant->at))}};
    if (wait.grant->release) json["granted"]["released_by"] = name_of(*wait.grant->release);
    if (wait.grant->by) json["granted"]["by"] = to_string(*wait.grant->by);
  }
  json["then_seconds"] = json_of(wait.then);
  return json;
}

}  // namespace

std::string explained_text(const Explained& e, const trace::Trace& trace) {
  std::string text =
      e.run + printed(": %zu waits of %zu workers, %.3f s in all, %.1f %% of their time\n", e.waits,
                      trace.workers.size(), to_seconds(e.waited), 100 * share(e.waited, e.worker_time));
  text += missing_of(e.run, trace) + left_out_of(trace) + clocks_of(trace);
  text += "\ncause            seconds  of their time  above all\n";
  for (const CauseCost& cost : e.causes) {
    std::string above;
    for (std::size_t i = 0; i < std::min(cost.workers.size(), kWorkersNamed); ++i) {
      above += (i == 0 ? "" : ", ") + to_string(cost.workers[i].first) + " (" +
               seconds(cost.workers[i].second) + ")";
    }
    if (cost.cause == WaitCause::kBarrier && !above.empty()) above = "for " + above;
    text += printed("%-12s%12.3f%13.1f %%  ", name_of(cost.cause), to_seconds(cost.total),
                    100 * share(cost.total, e.worker_time)) +
            above + "\n";
  }
  text += printed("\nThe %zu costliest waits\n      at s  worker     clock      waited ms  why\n",
                  e.costliest.size());
  for (const Wait& wait : e.costliest) {
    text += printed("%10.3f  %-7s%9lld%15.3f  ", to_seconds(since_start(trace, wait.begin)),
                    to_string(wait.worker).c_str(), static_cast<long long>(wait.clock.value),
                    static_cast<double>(wait.length.count()) * 1e-6) +
            short_why(wait) + "\n";
  }
  return text;
}

std::string explained_json(const Explained& e, const trace::Trace& trace) {
  Json json{{"run", e.run},
            {"waits", e.waits},
            {"waited_seconds", to_seconds(e.waited)},
            {"worker_seconds", to_seconds(e.worker_time)},
            {"left_out", trace.left_out()}};
  json["without_phases"] = Json::array();
  for (const WorkerId worker : trace.without_spans()) json["without_phases"].push_back(to_string(worker));
  json["causes"] = Json::array();
  for (const CauseCost& cost : e.causes) {
    Json one{{"cause", name_of(cost.cause)}, {"seconds", to_seconds(cost.total)}, {"workers", Json::array()}};
    for (const auto& [worker, time] : cost.workers) {
      one["workers"].push_back({{"worker", to_string(worker)}, {"seconds", to_seconds(time)}});
    }
    json["causes"].push_back(std::move(one));
  }
  json["costliest"] = Json::array();
  for (const Wait& wait : e.costliest) json["costliest"].push_back(json_of(wait, trace));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string wait_text(const Wait& wait, const trace::Trace& trace) {
  std::string text = "worker " + to_string(wait.worker) + ", clock " + to_string(wait.clock) + ": waited " +
                     ms(wait.length) + " from " + seconds(since_start(trace, wait.begin)) + " on\n";
  const auto part = [&](WaitCause cause, const std::string& why) {
    if (wait[cause].count() == 0) return;
    text += printed("  %-11s%12.3f ms  ", name_of(cause), static_cast<double>(wait[cause].count()) * 1e-6) +
            why + "\n";
  };
  const std::string indent(30, ' ');
  part(WaitCause::kBarrier, why_held(wait));
  if (wait[WaitCause::kBarrier].count() > 0 && wait.grant) {
    text += indent + "let go at " + seconds(since_start(trace, wait.grant->at)) + ": " +
            why_released(*wait.grant) + "\n";
  }
  if (const std::string meanwhile = longest_of(wait.of_whom); wait.whom && !meanwhile.empty()) {
    text += indent + "meanwhile worker " + to_string(*wait.whom) + ": " + meanwhile + "\n";
  }
  part(WaitCause::kNetwork,
       "gradient and report of clock " + to_string(wait.after) + " to the servers, and the answer");
  part(WaitCause::kServer, "until that gradient was whole on every server, and the next step decided");
  std::string of_version;
  if (wait.grant && wait.grant->version)
    of_version = ", of version " + to_string(*wait.grant->version) + " or newer";
  part(WaitCause::kParameters, "parameters from the servers" + of_version);
  part(WaitCause::kData, "its mini-batch");
  if (wait.evaluating.count() > 0) text += "  while a node evaluated: " + ms(wait.evaluating) + " of it\n";
  const std::string then = longest_of(wait.then);
  if (!then.empty()) text += "  then " + then + "\n";
  return text + clocks_of(trace);
}

std::string wait_json(const Wait& wait, const trace::Trace& trace) {
  return json_of(wait, trace).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace paceline
