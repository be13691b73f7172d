#include "tools/stage_waits.h"

#include <algorithm>
#include <cmath>

#include "common/schedule/awaited_stage.h"

namespace paceline {

using std::chrono::nanoseconds;

StageWaits::StageWaits(const trace::Trace& trace, std::uint32_t stages) : stages_(stages) {
  for (const trace::StageSpans& stage : trace.stages) {
    if (!stage.spans.empty()) spans_[stage.node] = &stage.spans;
  }
}

std::optional<NodeId> StageWaits::awaited(NodeId node, const schedule::PipelineRow& row) const {
  const std::uint32_t stage = node.value % stages_;
  switch (schedule::awaited_stage(row)) {
    case schedule::Awaited::kPrevious:
      return stage == 0 ? std::nullopt : std::optional(NodeId(node.value - 1));
    case schedule::Awaited::kNext:
      return stage + 1 == stages_ ? std::nullopt : std::optional(NodeId(node.value + 1));
    case schedule::Awaited::kNone:
      break;
  }
  return std::nullopt;
}

std::optional<Ticks> StageWaits::made(NodeId node, const schedule::PassSpan& needed_by) const {
  const auto found = spans_.find(node);
  if (found == spans_.end()) return std::nullopt;
  const Spans& spans = *found->second;
  auto span = std::upper_bound(spans.begin(), spans.end(), needed_by.begin,
                               [](Ticks at, const schedule::PassSpan& s) { return at < s.begin; });
  while (span != spans.begin()) {
    --span;
    if (span->clock != needed_by.clock) break;
    if (span->row == needed_by.row) return span->end();
  }
  return std::nullopt;
}

void StageWaits::blame(NodeId node, NodeId beside, const Stretch& gap, Times& times) const {
  nanoseconds own = gap.end - gap.begin;  // all that is not another's
  const auto found = spans_.find(beside);
  if (found != spans_.end()) {
    const Spans& spans = *found->second;
    auto span = std::lower_bound(spans.begin(), spans.end(), gap.begin,
                                 [](const schedule::PassSpan& s, Ticks at) { return s.end() <= at; });
    for (; span != spans.end(); ++span) {
      const bool is_very_first = span == spans.begin();
      const Ticks free = is_very_first ? gap.begin : (span - 1)->end();
      if (free >= gap.end) break;
      const std::optional<NodeId> further = awaited(beside, span->row);
      if (!further || *further == node) continue;  // what it waits for is on its way
      Stretch idle{std::max(gap.begin, free), std::min(gap.end, span->begin)};
      // Ahead of a step's first pass it may not have been there: then what it needed was.
      if (is_very_first || (span - 1)->clock != span->clock)
        idle.end = std::min(idle.end, made(*further, *span).value_or(idle.begin));
      if (idle.begin >= idle.end) continue;
      own -= idle.end - idle.begin;
      blame(beside, *further, idle, times);
    }
  }
  if (own.count() > 0) times[WorkerId(beside, 0)] += own;
}

StageWaits::Times StageWaits::of(WorkerId worker, Clock clock, Ticks begin, nanoseconds length) const {
  Times times;
  const auto found = spans_.find(worker.node);
  if (found == spans_.end()) return times;
  const Spans& spans = *found->second;
  auto span = std::lower_bound(spans.begin(), spans.end(), begin,
                               [](const schedule::PassSpan& s, Ticks at) { return s.end() <= at; });
  for (Ticks free = begin; span != spans.end() && span->clock == clock; free = span->end(), ++span) {
    const std::optional<NodeId> beside = awaited(worker.node, span->row);
    if (beside && span->begin > free) blame(worker.node, *beside, {free, span->begin}, times);
  }
  // What a stage does between passes is in gaps, too; the wait is what was measured.
  nanoseconds all{0};
  for (const auto& [whose, time] : times) all += time;
  if (all.count() == 0) return {};
  nanoseconds left = length;
  for (auto& [whose, time] : times) {
    const double share = static_cast<double>(time.count()) / static_cast<double>(all.count());
    time = std::min(left, nanoseconds(std::llround(share * static_cast<double>(length.count()))));
    left -= time;
  }
  times.rbegin()->second += left;
  return times;
}

}  // namespace paceline
