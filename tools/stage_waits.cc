#include "tools/stage_waits.h"

#include <algorithm>
#include <cmath>

#include "common/schedule/awaited_stage.h"

namespace paceline {

using std::chrono::nanoseconds;

StageWaits::StageWaits(const trace::Trace& trace, std::uint32_t stages) : stages_(stages) {
  for (const trace::StageSpans& stage : trace.stages) {
    if (!stage.spans.empty()) spans_[stage.node] = &stage.spans;
    for (const schedule::PassSpan& span : stage.spans) last_chunk_ = std::max(last_chunk_, span.row.chunk);
  }
}

std::optional<StageWaits::Awaited> StageWaits::awaited(NodeId node, const schedule::PipelineRow& row) const {
  const std::uint32_t stage = node.value % stages_;
  Awaited by{node, row};
  switch (schedule::awaited_stage(row)) {
    case schedule::Awaited::kPrevious:
      if (stage > 0) {
        --by.node.value;
      } else if (row.chunk > 0) {
        by.node.value += stages_ - 1;
        --by.row.chunk;
      } else {
        return std::nullopt;
      }
      return by;
    case schedule::Awaited::kNext:
      if (stage + 1 < stages_) {
        ++by.node.value;
      } else if (row.chunk < last_chunk_) {
        by.node.value -= stages_ - 1;
        ++by.row.chunk;
      } else {
        return std::nullopt;
      }
      return by;
    case schedule::Awaited::kNone:
      break;
  }
  return std::nullopt;
}

std::optional<Ticks> StageWaits::made(const Awaited& awaited, const schedule::PassSpan& needed_by) const {
  const auto found = spans_.find(awaited.node);
  if (found == spans_.end()) return std::nullopt;
  const Spans& spans = *found->second;
  auto span = std::upper_bound(spans.begin(), spans.end(), needed_by.begin,
                               [](Ticks at, const schedule::PassSpan& s) { return at < s.begin; });
  while (span != spans.begin()) {
    --span;
    if (span->clock != needed_by.clock) break;
    if (span->row == awaited.row) return span->end();
  }
  return std::nullopt;
}

void StageWaits::blame(NodeId node, NodeId beside, const Stretch& gap, std::uint32_t further,
                       Times& times) const {
  nanoseconds own = gap.end - gap.begin;  // all that is not another's
  const auto found = spans_.find(beside);
  if (found != spans_.end() && further > 0) {
    const Spans& spans = *found->second;
    auto span = std::lower_bound(spans.begin(), spans.end(), gap.begin,
                                 [](const schedule::PassSpan& s, Ticks at) { return s.end() <= at; });
    for (; span != spans.end(); ++span) {
      const bool is_very_first = span == spans.begin();
      const Ticks free = is_very_first ? gap.begin : (span - 1)->end();
      if (free >= gap.end) break;
      const std::optional<Awaited> next = awaited(beside, span->row);
      if (!next || next->node == node) continue;  // what it waits for is on its way
      Stretch idle{std::max(gap.begin, free), std::min(gap.end, span->begin)};
      // Ahead of a step's first pass it may not have been there: then what it needed was.
      if (is_very_first || (span - 1)->clock != span->clock)
        idle.end = std::min(idle.end, made(*next, *span).value_or(idle.begin));
      if (idle.begin >= idle.end) continue;
      own -= idle.end - idle.begin;
      blame(beside, next->node, idle, further - 1, times);
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
    const std::optional<Awaited> by = awaited(worker.node, span->row);
    if (by && span->begin > free) blame(worker.node, by->node, {free, span->begin}, stages_ - 1, times);
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
