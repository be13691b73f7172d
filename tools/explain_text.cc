#include "tools/explain_text.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "common/printed.h"
#include "tools/explain_costliest.h"
#include "tools/text_table.h"

namespace paceline {
namespace {

using std::chrono::nanoseconds;

constexpr std::size_t kWorkersNamed = 3;  // of a cause
constexpr std::size_t kPhasesNamed = 3;   // of what a worker did meanwhile
constexpr std::size_t kMissingNamed = 8;  // of those without spans
constexpr double kShownFrom = 0.01;       // of all waiting: a cause that cost less has no list
// Who causes the waits of a cause; of the barrier, sums, formations and stages it is a worker, as far as that is known.
constexpr std::array<const char*, kWaitCauses.size()> kCausers = {"",
                                                                  "the way to the servers and back",
                                                                  "the servers",
                                                                  "the servers, and the way from them",
                                                                  "its own node",
                                                                  "the sum itself",
                                                                  "nobody who is known to be lost",
                                                                  "other nodes of its group"};
// `is_summed`: in an all-reduce, whose nodes step, and send a server no gradients.
const char* causer_of(WaitCause cause, bool is_summed) {
  if (is_summed && cause == WaitCause::kNetwork) return "its step, the report of it and the answer";
  return kCausers[static_cast<std::size_t>(cause)];
}

// Whether every run has such waits.
bool is_usual(WaitCause cause) {
  return cause != WaitCause::kStage && cause != WaitCause::kSum && cause != WaitCause::kFormation;
}

std::string ms(nanoseconds d) { return printed("%.3f ms", static_cast<double>(d.count()) * 1e-6); }
std::string seconds(nanoseconds d) { return printed("%.3f s", to_seconds(d)); }
double share(nanoseconds part, nanoseconds whole) {
  return whole.count() > 0 ? static_cast<double>(part.count()) / static_cast<double>(whole.count()) : 0.0;
}

// "COMPUTE_GRADS 118.200 ms, PS_APPLY_GRADS 2.200 ms": the most of it.
std::string longest_of(const TimesByPhase& times) {
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
  const auto& decision = wait.hold ? wait.hold : wait.grant;
  if (!decision) return "held by the threshold; the decision is left out of the trace";
  std::string text;
  if (wait.hold && wait.hold->by && wait.hold->min_clock) {
    text = to_string(wait.clock - *wait.hold->min_clock) + " ahead of worker " + to_string(*wait.hold->by) +
           " (clock " + to_string(*wait.hold->min_clock) + ")";
  } else {
    text = "ahead of the slowest";
  }
  if (decision->threshold) text += ", threshold " + to_string(*decision->threshold);
  return text + lpr_of(*decision);
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

std::string left_out_of(const trace::Trace& trace) {
  if (trace.left_out() == 0) return "";
  return "The trace has " + std::to_string(trace.events()) + " events; " + std::to_string(trace.left_out()) +
         " older ones are left out (run.trace_events).\n";
}

std::string names_of(const std::vector<WorkerId>& workers) {
  std::string names;
  for (std::size_t i = 0; i < std::min(workers.size(), kMissingNamed); ++i) {
    names += (i == 0 ? "" : ", ") + to_string(workers[i]);
  }
  if (workers.size() > kMissingNamed) names += printed(" and %zu more", workers.size() - kMissingNamed);
  return names;
}

// Of a run that failed, or whose nodes were elsewhere: their 0 waits are none that anybody counted. A node that is
// killed leaves no part of a trace; one that is lost and lives does.
std::string missing_of(const std::string& run, const trace::Trace& trace) {
  std::vector<WorkerId> lost, missing;
  for (const WorkerId worker : trace.without_spans()) {
    (was_lost(trace, worker.node) ? lost : missing).push_back(worker);
  }
  const std::string bring =
      " Bring their nodes' trace-node-*.json into " + run + " and call paceline trace " + run;
  std::string text;
  if (!lost.empty()) {
    text += "Nothing is known of the waits of " + names_of(lost) + ", whose nodes were lost." + bring +
            ", unless they were killed.\n";
  }
  if (!missing.empty()) {
    text += "Nothing is known of the waits of " + names_of(missing) +
            ": the trace has decisions about them, but no phases." + bring + ".\n";
  }
  return text;
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

// "3.0 (8.912 s), 1.2 (0.100 s)"
std::string named(const std::vector<std::pair<WorkerId, nanoseconds>>& workers) {
  std::string text;
  for (std::size_t i = 0; i < std::min(workers.size(), kWorkersNamed); ++i) {
    text += (i == 0 ? "" : ", ") + to_string(workers[i].first) + " (" + seconds(workers[i].second) + ")";
  }
  return text;
}

// Whose doing a cause is.
std::string caused_by(const CauseCost& cost) {
  if (cost.total.count() == 0) return "";
  if (cost.cause != WaitCause::kBarrier && is_usual(cost.cause)) return causer_of(cost.cause, cost.is_summed);
  std::string text = named(cost.workers);
  if (cost.of_unknown.count() > 0) {
    const std::string rest = cost.cause == WaitCause::kBarrier ? "unknown"
                             : cost.cause == WaitCause::kStage ? "others of its group"
                                                               : causer_of(cost.cause, cost.is_summed);
    text += (text.empty() ? "" : ", ") + rest + " (" + seconds(cost.of_unknown) + ")";
  }
  return text;
}

// "worker 2.0 (12.300 ms), 1.0 (0.200 ms)": whose doing a wait's part was, also for whom a stage waited in its step.
std::string waited_for(const Wait& wait, WaitCause cause) {
  if (cause == WaitCause::kStage && wait.of_stages.empty() && wait.beside) {
    return "worker " + to_string(*wait.beside);
  }
  std::vector<std::pair<nanoseconds, WorkerId>> longest_first;
  nanoseconds rest = wait[cause];
  for (const auto& [whose, time] : doing_of(wait, cause)) {
    longest_first.emplace_back(-time, whose);
    rest -= time;
  }
  std::sort(longest_first.begin(), longest_first.end());
  std::string text;
  for (const auto& [time, whose] : longest_first) {
    text += (text.empty() ? "worker " : ", ") + to_string(whose) + " (" + ms(-time) + ")";
  }
  if (text.empty()) return causer_of(cause, wait.is_summed);
  const bool has_rest = cause == WaitCause::kSum && rest.count() > 0;
  return has_rest ? text + ", " + causer_of(cause, wait.is_summed) + " (" + ms(rest) + ")" : text;
}

// Of a run whose server was killed: who was held is known, and for whom is not.
std::string undecided(const trace::Trace& trace) {
  if (!trace.decisions.empty()) return "";
  return "Whom workers were held for is not known: the trace has no decisions, since there is no "
         "trace-authority.json.\n";
}

// "; in these waits a node evaluated for 48.100 ms"; empty where that explains little.
std::string while_evaluating(const CostlyWait& entry) {
  nanoseconds evaluating{0};
  for (const Wait* wait : entry.waits) evaluating += wait->evaluating;
  if (evaluating.count() == 0 || evaluating * 20 < entry.time) return "";
  return "; in these waits a node evaluated for " + ms(evaluating);
}

// "COMPUTE_GRADS 1200.000 ms": what the worker that was waited for did most of the longest wait.
std::string mostly(const TimesByPhase& times) {
  const std::string all = longest_of(times);
  return all.substr(0, all.find(','));
}

std::string barrier_row(const CostlyWait& entry, nanoseconds begin) {
  const Wait& longest = *entry.waits.front();
  const std::size_t workers = entry.waits.size();
  return printed("%10.3f%14.3f  %-10s  %-7s%9s  ", to_seconds(begin), to_seconds(entry.time),
                 workers == 1 ? to_string(longest.worker).c_str() : printed("%zu workers", workers).c_str(),
                 longest.whom ? to_string(*longest.whom).c_str() : "?",
                 entry.whom_at ? to_string(*entry.whom_at).c_str() : "?") +
         mostly(longest.of_whom) + while_evaluating(entry) + "\n";
}

std::string other_row(const CostlyWait& entry, WaitCause cause, nanoseconds begin) {
  const Wait& wait = *entry.waits.front();
  return printed("%10.3f%14.3f  %-10s%9s%13.1f %%  ", to_seconds(begin), to_seconds(entry.time),
                 to_string(wait.worker).c_str(), to_string(wait.clock).c_str(),
                 100 * share(entry.time, wait.length)) +
         waited_for(wait, cause) + while_evaluating(entry) + "\n";
}

// The list of one cause, with its headings.
std::string costliest_text(const Explained& e, WaitCause cause, const trace::Trace& trace) {
  const std::vector<CostlyWait> entries = costliest_of(e.waits, cause, kCostliest);
  const bool barrier = cause == WaitCause::kBarrier;
  std::string text = printed("\n%s: the %zu costliest", name_of(cause), entries.size());
  text += barrier ? ", waits that one release ended together\n"
                    "      at s      waited s  who waited  for     at clock  which meanwhile was in\n"
                  : "\n      at s      waited s  worker        clock   of that wait  caused by\n";
  for (const CostlyWait& entry : entries) {
    const nanoseconds begin = since_start(trace, entry.begin);
    text += barrier ? barrier_row(entry, begin) : other_row(entry, cause, begin);
  }
  return text;
}

}  // namespace

// Seconds are counted from the first grant, as in curve.csv, or from the trace's begin where it is not there.
nanoseconds since_start(const trace::Trace& trace, Ticks at) {
  if (trace.first_grant) return at - *trace.first_grant;
  Ticks first = at;
  for (const trace::WorkerSpans& worker : trace.workers) {
    if (!worker.spans.empty()) first = std::min(first, worker.spans.front().begin);
  }
  return at - first;
}

std::string explained_text(const Explained& e, const trace::Trace& trace) {
  std::string text =
      e.run + printed(": %zu waits of %zu workers, %.3f s in all, %.1f %% of their time\n", e.waits.size(),
                      trace.workers.size(), to_seconds(e.waited), 100 * share(e.waited, e.worker_time));
  text += missing_of(e.run, trace) + undecided(trace) + left_out_of(trace) + clocks_of(trace);
  TextTable table{.columns = {{"cause", Align::kLeft},
                              {"seconds"},
                              {"of their time"},
                              {"caused above all by", Align::kLeft},
                              {"borne above all by", Align::kLeft}}};
  for (const CauseCost& cost : e.causes) {
    if (e.cause && cost.cause != *e.cause) continue;
    if (!e.cause && !is_usual(cost.cause) && cost.total.count() == 0) continue;
    table.rows.push_back({{name_of(cost.cause)},
                          {printed("%.3f", to_seconds(cost.total))},
                          {printed("%.1f %%", 100 * share(cost.total, e.worker_time))},
                          {caused_by(cost)},
                          {named(cost.waiting)}});
  }
  text += "\n" + rendered(table, TextStyle::kPlain);
  for (const CauseCost& cost : e.causes) {
    const bool shown = e.cause ? cost.cause == *e.cause : share(cost.total, e.waited) >= kShownFrom;
    if (shown && cost.total.count() > 0) text += costliest_text(e, cost.cause, trace);
  }
  return text;
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
  const std::string after = "clock " + to_string(wait.after);
  part(WaitCause::kSum,
       "the gradients of " + after + " were summed; for " + waited_for(wait, WaitCause::kSum));
  part(WaitCause::kFormation,
       "those that are left met anew; lost: " + waited_for(wait, WaitCause::kFormation));
  part(WaitCause::kNetwork, wait.is_summed
                                ? "its step, the report of " + after + " to the authority, and the answer"
                                : "gradient and report of " + after + " to the servers, and the answer");
  part(WaitCause::kServer, "until that gradient was whole on every server, and the next step decided");
  std::string of_version;
  if (wait.grant && wait.grant->version)
    of_version = ", of version " + to_string(*wait.grant->version) + " or newer";
  part(WaitCause::kParameters, "parameters from the servers" + of_version);
  part(WaitCause::kData, "its mini-batch");
  part(WaitCause::kStage, "in its step, for " + waited_for(wait, WaitCause::kStage));
  if (wait.evaluating.count() > 0) text += "  while a node evaluated: " + ms(wait.evaluating) + " of it\n";
  const std::string then = longest_of(wait.then);
  if (!then.empty()) text += "  then " + then + "\n";
  return text + clocks_of(trace);
}

}  // namespace paceline
