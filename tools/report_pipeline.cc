#include "tools/report_pipeline.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include "common/ticks.h"

namespace paceline {
namespace {

constexpr std::size_t kTracedColumns = 100;

std::string as_percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.1f %%", 100.0 * share);
  return text;
}

std::string as_seconds(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", value);
  return text;
}

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

// "stage speeds 1, 0.33: pipeline.balance: [3, 1] would take 0.50 of the slowest stage's time"
std::string text_of(const MeasuredCut& cut) {
  std::string speeds;
  std::string layers;
  for (std::size_t s = 0; s < cut.layers.size(); ++s) {
    char speed[32];
    std::snprintf(speed, sizeof speed, "%.2g", cut.speeds[s]);
    speeds += (s == 0 ? "" : ", ") + std::string(speed);
    layers += (s == 0 ? "" : ", ") + std::to_string(cut.layers[s]);
  }
  char slowest[32];
  std::snprintf(slowest, sizeof slowest, "%.2f", cut.slowest);
  return "stage speeds " + speeds + ": pipeline.balance: [" + layers + "] would take " + slowest +
         " of the slowest stage's time\n";
}

TextTable table_of(const PipelineSummary& pipeline) {
  TextTable table{.ruled = true,
                  .columns = {{"stage"},
                              {"computed s"},
                              {"waited s for the one in front"},
                              {"for the one behind"},
                              {"kept at most, bytes"}}};
  for (std::size_t s = 0; s < pipeline.busy_seconds.size(); ++s) {
    const bool has_chunks = pipeline.chunks > 1;  // then each stage has one in front and one behind
    const bool is_last = s + 1 == pipeline.busy_seconds.size() && !has_chunks;
    table.rows.push_back({{std::to_string(s)},
                          {as_seconds(pipeline.busy_seconds[s])},
                          {s == 0 && !has_chunks ? "" : as_seconds(pipeline.idle_for_previous_seconds[s])},
                          {is_last ? "" : as_seconds(pipeline.idle_for_next_seconds[s])},
                          {std::to_string(pipeline.peak_activation_bytes[s])}});
  }
  return table;
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

std::string pipeline_report(const FinishedRun& run, const trace::Trace* trace,
                            const std::optional<MeasuredCut>& cut, TextStyle style) {
  if (!run.summary.pipeline) return "";
  const PipelineSummary& pipeline = *run.summary.pipeline;
  const double formula = schedule::bubble_formula(static_cast<std::uint32_t>(pipeline.stages),
                                                  static_cast<std::uint32_t>(pipeline.micro_batches),
                                                  static_cast<std::uint32_t>(pipeline.chunks));
  const std::string of_chunks =
      pipeline.chunks > 1 ? " of " + std::to_string(pipeline.chunks) + " chunks" : "";
  const std::string m = pipeline.chunks > 1 ? "v M" : "M";
  std::string text =
      "\n" + rendered_lines("pipeline: " + std::to_string(pipeline.stages) + " stages" + of_chunks + ", " +
                                std::to_string(pipeline.micro_batches) + " micro-batches\n  bubble " +
                                as_percent(pipeline.bubble_share) + ", (K - 1) / (" + m +
                                " + K - 1) = " + as_percent(formula) + "\n",
                            style);
  if (!pipeline.busy_seconds.empty()) text += "\n" + rendered(table_of(pipeline), style);
  if (cut) text += "\n" + rendered_lines(text_of(*cut), style);
  const auto step =
      trace == nullptr ? std::nullopt : median_step(*trace, static_cast<std::size_t>(pipeline.stages));
  if (!step) return text;
  const std::string fence = style == TextStyle::kMarkdown ? "```\n" : "";
  return text + "\nthe step of clock " + to_string(step->clock) + ", the median of " +
         std::to_string(step->of) + ": " + as_seconds(step->times.step) + " s, bubble " +
         as_percent(step->times.bubble_share()) + "\n" + fence + timeline(step->times, kTracedColumns) +
         fence;
}

}  // namespace paceline
