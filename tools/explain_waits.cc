#include "tools/explain_waits.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace paceline {
namespace {

using std::chrono::nanoseconds;
using trace::Decision;
using trace::DecisionKind;
using Iteration = std::pair<WorkerId, Clock>;

// A stretch of time.
struct Stretch {
  Ticks begin, end;
};

nanoseconds overlap(const Stretch& a, const Stretch& b) {
  return std::max(std::min(a.end, b.end) - std::max(a.begin, b.begin), nanoseconds(0));
}

// The authority's decisions about each iteration. Of one that was done twice, after a resume, the last.
struct Decisions {
  std::map<Iteration, const Decision*> reports, holds, grants;
  std::vector<Stretch> evaluations;

  explicit Decisions(const trace::Trace& trace) {
    std::optional<Ticks> evaluating;
    for (const Decision& d : trace.decisions) {
      if (d.kind == DecisionKind::kEvaluation) evaluating = d.at;
      if (d.kind == DecisionKind::kEvaluated && evaluating) {
        evaluations.push_back({*std::exchange(evaluating, std::nullopt), d.at});
      }
      if (!d.worker || !d.clock) continue;
      const Iteration iteration{*d.worker, *d.clock};
      if (d.kind == DecisionKind::kReported) reports[iteration] = &d;
      if (d.kind == DecisionKind::kHeld) holds[iteration] = &d;
      if (d.kind == DecisionKind::kGranted) grants[iteration] = &d;
    }
  }
};

std::optional<Decision> found(const std::map<Iteration, const Decision*>& in, const Iteration& iteration) {
  const auto at = in.find(iteration);
  return at == in.end() ? std::nullopt : std::optional(*at->second);
}

// What a worker did in a stretch of time, by phase. Its spans are in order.
TimesByPhase times_in(const trace::WorkerSpans& worker, const Stretch& stretch) {
  TimesByPhase times{};
  auto span = std::lower_bound(worker.spans.begin(), worker.spans.end(), stretch.begin,
                               [](const PhaseSpan& s, Ticks at) { return s.end() <= at; });
  for (; span != worker.spans.end() && span->begin < stretch.end; ++span) {
    times[static_cast<std::size_t>(span->phase)] += overlap({span->begin, span->end()}, stretch);
  }
  return times;
}

// Phases in which a worker waits, and those after which it computes.
bool is_exchange(Phase phase) { return phase == Phase::kStep || phase == Phase::kPsApplyGrads; }
std::optional<WaitCause> cause_of(Phase phase) {
  switch (phase) {
    case Phase::kBarrier:
      return WaitCause::kBarrier;
    case Phase::kStep:
    case Phase::kPsApplyGrads:
      return WaitCause::kNetwork;
    case Phase::kPsParam:
      return WaitCause::kParameters;
    case Phase::kBatch:
      return WaitCause::kData;
    default:
      return std::nullopt;
  }
}

class Waits {
 public:
  Waits(const trace::Trace& trace, ExchangedBy by, std::uint32_t stages, std::uint32_t norm_group)
      : trace_(trace),
        decisions_(trace),
        sums_(by == ExchangedBy::kAllreduce),
        stages_(stages),
        waits_in_steps_(stages > 1 || norm_group > 1),
        passes_(trace, stages),
        summed_(trace, stages) {
    if (!sums_) return;
    for (const trace::WorkerSpans& worker : trace.workers) {
      for (const PhaseSpan& span : worker.spans) {
        if (span.phase != Phase::kComputeGrads) continue;
        const auto [last, is_new] = last_computed_.emplace(std::pair(span.clock, stage_of(worker.worker)),
                                                           std::pair(span.end(), worker.worker));
        if (!is_new && span.end() > last->second.first) last->second = {span.end(), worker.worker};
      }
    }
  }

  std::vector<Wait> all() {
    for (const trace::WorkerSpans& worker : trace_.workers) of(worker);
    return std::move(waits_);
  }

 private:
  // An iteration's spans are its reading, mini-batch, computation and local apply, then the exchange. The
  // wait for it began with the exchange of the one before.
  void of(const trace::WorkerSpans& worker) {
    std::optional<Wait> wait;
    const auto close = [&] {
      if (wait) finish(*std::exchange(wait, std::nullopt));
    };
    bool has_computed = false;  // since the last wait was closed, in iteration `computed`
    Clock computed;
    for (std::size_t i = 0; i < worker.spans.size(); ++i) {
      const PhaseSpan& span = worker.spans[i];
      const std::optional<WaitCause> cause =
          waits_in_step(worker, i) ? WaitCause::kStage : cause_of(span.phase);
      // The exchange after a computation begins the next wait. One that took no time has no span, and one of
      // a process that is gone is not here: then what is of another iteration does.
      const bool is_behind = is_exchange(span.phase) || span.phase == Phase::kBarrier;
      if (has_computed && (is_behind || span.clock != computed)) {
        close();
        has_computed = false;
      }
      if (!wait) {
        wait.emplace();
        wait->worker = worker.worker;
        wait->begin = span.begin;
        wait->after = span.clock;
      }
      wait->clock = std::max(wait->clock, span.clock);
      if (cause) {
        wait->causes[static_cast<std::size_t>(*cause)] += span.length;
        wait->length += span.length;
        if (cause == WaitCause::kStage) {
          wait->beside = neighbour(worker.worker);
          for (const auto& [whose, time] : passes_.of(worker.worker, span.clock, span.begin, span.length))
            wait->of_stages[whose] += time;
        }
        if (cause == WaitCause::kBarrier) barrier_ = {span.begin, span.end()};
        if (is_exchange(span.phase)) exchange_ = exchange_.value_or(span.begin);
      } else {
        wait->then[static_cast<std::size_t>(span.phase)] += span.length;
      }
      if (span.phase == Phase::kComputeGrads) {
        has_computed = true;
        computed = span.clock;
      }
    }
    close();
  }

  // A wait within a step, of a stage or of a member of a norm group, is one span, in front of the computation that it
  // was in.
  bool waits_in_step(const trace::WorkerSpans& worker, std::size_t i) const {
    if (!waits_in_steps_ || worker.spans[i].phase != Phase::kBarrier || i + 1 == worker.spans.size())
      return false;
    return worker.spans[i + 1].phase == Phase::kComputeGrads &&
           worker.spans[i + 1].clock == worker.spans[i].clock;
  }
  std::uint32_t stage_of(WorkerId worker) const { return worker.node.value % stages_; }
  // The first and the last stage have one, but for several chunks; a norm group's member has all others.
  std::optional<WorkerId> neighbour(WorkerId worker) const {
    const std::uint32_t stage = stage_of(worker);
    if (stages_ == 1 || (stages_ > 2 && passes_.has_chunks())) return std::nullopt;
    if (stage == 0) return WorkerId(NodeId(worker.node.value + 1), worker.thread);
    if (stage + 1 == stages_) return WorkerId(NodeId(worker.node.value - 1), worker.thread);
    return std::nullopt;
  }

  void finish(Wait wait) {
    const std::optional<Stretch> barrier = std::exchange(barrier_, std::nullopt);
    const std::optional<Ticks> exchange = std::exchange(exchange_, std::nullopt);
    if (wait.length.count() == 0) return;
    // Nothing after the last exchange: it waited for an iteration that did not come, and not for its own.
    const bool is_last = exchange && wait.clock == wait.after;
    if (is_last) wait.clock = wait.after.next();
    wait.hold = found(decisions_.holds, {wait.worker, wait.clock});
    if (!is_last) wait.grant = found(decisions_.grants, {wait.worker, wait.clock});
    wait.is_summed = sums_;
    if (exchange && sums_) {
      attribute_sum(wait, *exchange, barrier);
    } else {
      if (exchange) divide_exchange(wait, *exchange);
      if (barrier) attribute(wait, *barrier);
    }
    const Stretch whole{wait.begin, wait.begin + wait.length};
    // One is asked for after the other, so they are in order and none overlaps another.
    const std::vector<Stretch>& evaluations = decisions_.evaluations;
    auto evaluation = std::lower_bound(evaluations.begin(), evaluations.end(), whole.begin,
                                       [](const Stretch& e, Ticks from) { return e.end <= from; });
    for (; evaluation != evaluations.end() && evaluation->begin < whole.end; ++evaluation) {
      wait.evaluating += overlap(whole, *evaluation);
    }
    waits_.push_back(std::move(wait));
  }

  // From the report until something follows from it the servers are at work.
  void divide_exchange(Wait& wait, Ticks begin) const {
    const auto report = found(decisions_.reports, {wait.worker, wait.after});
    const auto& decided = wait.hold ? wait.hold : wait.grant;
    if (!report || !decided) return;
    nanoseconds& network = wait.causes[static_cast<std::size_t>(WaitCause::kNetwork)];
    const nanoseconds there = std::clamp(report->at - begin, nanoseconds(0), network);
    const nanoseconds server = std::clamp(decided->at - report->at, nanoseconds(0), network - there);
    wait.causes[static_cast<std::size_t>(WaitCause::kServer)] = server;
    network -= server;
  }

  // All-reduce: nothing can be summed until the last worker, of stages that of the same stage, has its gradient, so
  // the others are held for it until then; what follows is the sum (sum_waits.h).
  // What the authority decides after the sum, a moment's hold for the last report included, is of the way to it; but
  // stages end at unlike instants, and who ends early is held for the others.
  void attribute_sum(Wait& wait, Ticks begin, const std::optional<Stretch>& barrier) const {
    nanoseconds& network = wait.causes[static_cast<std::size_t>(WaitCause::kNetwork)];
    nanoseconds& held = wait.causes[static_cast<std::size_t>(WaitCause::kBarrier)];
    const nanoseconds for_stages = stages_ == 1 ? nanoseconds(0) : held;
    if (for_stages.count() > 0 && barrier) {
      attribute(wait, *barrier);
    } else {
      network += std::exchange(held, nanoseconds(0));
      wait.hold.reset();
      if (wait.grant) wait.grant->release.reset();
    }
    const Stretch exchange{begin, begin + network};
    const auto found_last = last_computed_.find({wait.after, stage_of(wait.worker)});
    nanoseconds until{0};
    if (found_last != last_computed_.end() && found_last->second.second != wait.worker) {
      until = std::clamp(found_last->second.first - begin, nanoseconds(0), network);
    }
    network -= until;
    held += until;
    const auto report = found(decisions_.reports, {wait.worker, wait.after});
    SumWaits::Parts parts = summed_.of(wait.worker.node, wait.after, begin + until, exchange.end,
                                       report ? std::optional(report->at) : std::nullopt);
    wait.causes[static_cast<std::size_t>(WaitCause::kSum)] = parts.sum;
    wait.causes[static_cast<std::size_t>(WaitCause::kFormation)] = parts.formation;
    network -= parts.sum + parts.formation;
    wait.of_sum = std::move(parts.sum_for);
    wait.of_formation = std::move(parts.formation_for);
    if (until.count() > 0 && until >= for_stages) hold_for(wait, found_last->second, {begin, begin + until});
  }

  // For the one whose gradient was the last, until it was there.
  void hold_for(Wait& wait, const std::pair<Ticks, WorkerId>& by, const Stretch& held) const {
    const auto& [there, last] = by;
    wait.whom = last;
    wait.hold =
        Decision{.at = held.begin, .kind = DecisionKind::kHeld, .worker = wait.worker, .clock = wait.clock};
    wait.hold->min_clock = wait.after;
    wait.hold->by = last;
    if (wait.grant) {
      wait.hold->threshold = wait.grant->threshold;
      wait.grant->at = there;
      wait.grant->release = trace::Release::kWorker;
      wait.grant->by = last;
      wait.grant->min_clock = wait.after;
    }
    if (const trace::WorkerSpans* const spans = trace_.find(last)) {
      wait.of_whom = times_in(*spans, held);
    }
  }

  void attribute(Wait& wait, const Stretch& barrier) const {
    if (wait.hold) wait.whom = wait.hold->by;
    if (wait.grant && wait.grant->release == trace::Release::kWorker) wait.whom = wait.grant->by;
    if (!wait.whom) return;
    const trace::WorkerSpans* const spans = trace_.find(*wait.whom);
    if (spans == nullptr) return;
    const bool seen = wait.hold && wait.grant;
    wait.of_whom = times_in(*spans, seen ? Stretch{wait.hold->at, wait.grant->at} : barrier);
  }

  const trace::Trace& trace_;
  const Decisions decisions_;
  const bool sums_;
  const std::uint32_t stages_;  // of a group of nodes; 1: no pipeline
  const bool waits_in_steps_;
  const StageWaits passes_;
  const SumWaits summed_;
  // All-reduce: of each clock, when the last gradient was there, and whose it was.
  std::map<std::pair<Clock, std::uint32_t>, std::pair<Ticks, WorkerId>> last_computed_;  // by clock and stage
  std::vector<Wait> waits_;
  std::optional<Stretch> barrier_;  // of the wait that is being put together
  std::optional<Ticks> exchange_;
};

}  // namespace

std::vector<Wait> waits_of(const trace::Trace& trace, ExchangedBy by, std::uint32_t stages,
                           std::uint32_t norm_group) {
  return Waits(trace, by, stages, norm_group).all();
}

const SumWaits::Times& doing_of(const Wait& wait, WaitCause cause) {
  static const SumWaits::Times kNone;
  switch (cause) {
    case WaitCause::kStage:
      return wait.of_stages;
    case WaitCause::kSum:
      return wait.of_sum;
    case WaitCause::kFormation:
      return wait.of_formation;
    default:
      return kNone;
  }
}

std::vector<CauseCost> costs_of(const std::vector<Wait>& waits) {
  using Times = std::map<WorkerId, nanoseconds>;
  std::array<Times, kWaitCauses.size()> by, of;
  for (const Wait& wait : waits) {
    for (std::size_t c = 0; c < kWaitCauses.size(); ++c) {
      if (wait.causes[c].count() == 0) continue;
      const auto cause = static_cast<WaitCause>(c);
      std::optional<WorkerId> whose = wait.worker;
      if (cause == WaitCause::kBarrier) whose = wait.whom;
      if (cause == WaitCause::kStage) whose = wait.of_stages.empty() ? wait.beside : std::nullopt;
      if (cause == WaitCause::kSum || cause == WaitCause::kFormation) whose.reset();
      for (const auto& [worker, time] : doing_of(wait, cause)) by[c][worker] += time;
      if (whose) by[c][*whose] += wait.causes[c];
      of[c][wait.worker] += wait.causes[c];
    }
  }
  const auto costliest_first = [](const Times& times) {
    std::vector<std::pair<WorkerId, nanoseconds>> sorted(times.begin(), times.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    return sorted;
  };
  std::vector<CauseCost> costs;
  for (std::size_t c = 0; c < kWaitCauses.size(); ++c) {
    CauseCost cost{static_cast<WaitCause>(c), nanoseconds(0), costliest_first(by[c]), costliest_first(of[c])};
    for (const auto& [worker, time] : cost.waiting) cost.total += time;
    cost.of_unknown = cost.total;
    for (const auto& [worker, time] : cost.workers) cost.of_unknown -= time;
    cost.is_summed = !waits.empty() && waits.front().is_summed;
    costs.push_back(std::move(cost));
  }
  return costs;
}

std::vector<Wait> costliest(std::vector<Wait> waits, std::size_t most) {
  const auto first = [](const Wait& a, const Wait& b) {
    return std::tuple(b.length, a.begin, a.worker) < std::tuple(a.length, b.begin, b.worker);
  };
  most = std::min(most, waits.size());
  std::partial_sort(waits.begin(), waits.begin() + static_cast<std::ptrdiff_t>(most), waits.end(), first);
  waits.resize(most);
  return waits;
}

bool was_lost(const trace::Trace& trace, NodeId node) {
  return std::any_of(trace.decisions.begin(), trace.decisions.end(), [node](const Decision& decision) {
    return (decision.kind == DecisionKind::kLost || decision.kind == DecisionKind::kParted) &&
           decision.node == node;
  });
}

nanoseconds worker_time(const trace::Trace& trace) {
  nanoseconds sum{0};
  for (const trace::WorkerSpans& worker : trace.workers) {
    if (!worker.spans.empty()) sum += worker.spans.back().end() - worker.spans.front().begin;
  }
  return sum;
}

}  // namespace paceline
