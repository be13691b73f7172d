#include "common/page/traced_step.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "common/ticks.h"

namespace paceline {
namespace {

// What each stage of the first group did in a step.
using StepRows = std::vector<std::vector<schedule::PassSpan>>;

bool is_whole(const StepRows& rows) {
  const std::size_t forward = static_cast<std::size_t>(std::count_if(
      rows.back().begin(), rows.back().end(),
      [](const schedule::PassSpan& span) { return span.row.pass == schedule::PipelineRow::Pass::kForward; }));
  return forward > 0 && std::all_of(rows.begin(), rows.end(), [&](const auto& row) {
           const auto backward = std::count_if(row.begin(), row.end(), [](const schedule::PassSpan& span) {
             return span.row.pass == schedule::PipelineRow::Pass::kBackward;
           });
           return static_cast<std::size_t>(backward) == forward;
         });
}

schedule::PipelineTimes times_of(const StepRows& rows) {
  Ticks begin = rows.front().front().begin;
  for (const auto& row : rows) begin = std::min(begin, row.front().begin);
  schedule::PipelineTimes times;
  for (const auto& row : rows) {
    double busy = 0.0;
    auto& passes = times.rows.emplace_back();
    for (const schedule::PassSpan& span : row) {
      passes.push_back({span.row, to_seconds(span.begin - begin), to_seconds(span.end() - begin)});
      busy += to_seconds(span.length);
    }
    times.busy.push_back(busy);
    times.step = std::max(times.step, passes.back().end);
  }
  return times;
}

}  // namespace

std::optional<TracedStep> median_step(const trace::Trace& trace, std::size_t stages) {
  std::map<Clock, StepRows> steps;
  for (const trace::StageSpans& stage : trace.stages) {
    if (stage.node.value >= stages) continue;
    for (const schedule::PassSpan& span : stage.spans) {
      StepRows& rows = steps[span.clock];
      rows.resize(stages);
      rows[stage.node.value].push_back(span);
    }
  }
  std::vector<TracedStep> whole;
  for (const auto& [clock, rows] : steps) {
    if (is_whole(rows)) whole.push_back({clock, 0, times_of(rows)});
  }
  if (whole.empty()) return std::nullopt;
  const auto middle = whole.begin() + static_cast<std::ptrdiff_t>(whole.size() / 2);
  std::nth_element(whole.begin(), middle, whole.end(),
                   [](const TracedStep& a, const TracedStep& b) { return a.times.step < b.times.step; });
  middle->of = whole.size();
  return std::move(*middle);
}

}  // namespace paceline
