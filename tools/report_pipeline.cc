#include "tools/report_pipeline.h"

#include <cstdio>

#include "common/page/traced_step.h"
#include "common/schedule/timeline.h"

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

// "stage speeds 1, 0.33: pipeline.balance: [3, 1] would take 0.50 of the slowest stage's time"; a resume keeps
// the cut of stages that have several parts.
std::string text_of(const MeasuredCut& cut) {
  std::string speeds;
  std::string layers;
  for (const double each : cut.speeds) {
    char speed[32];
    std::snprintf(speed, sizeof speed, "%.2g", each);
    speeds += (speeds.empty() ? "" : ", ") + std::string(speed);
  }
  for (const std::size_t each : cut.layers) layers += (layers.empty() ? "" : ", ") + std::to_string(each);
  char slowest[32];
  std::snprintf(slowest, sizeof slowest, "%.2f", cut.slowest);
  return "stage speeds " + speeds + ": pipeline.balance: [" + layers + "] would take " + slowest +
         " of the slowest stage's time" + (cut.layers.size() > cut.speeds.size() ? ", in a new run\n" : "\n");
}

TextTable table_of(const PipelineSummary& pipeline) {
  // Of all its chunks; of a loop's own cut nothing is known.
  const auto of_cut = [&pipeline](const std::vector<std::int64_t>& numbers, std::size_t stage) {
    if (numbers.empty()) return std::string("-");
    std::int64_t sum = 0;
    for (std::size_t part = stage; part < numbers.size(); part += pipeline.busy_seconds.size())
      sum += numbers[part];
    return std::to_string(sum);
  };
  TextTable table{.ruled = true,
                  .columns = {{"stage"},
                              {"layers"},
                              {"parameters"},
                              {"computed s"},
                              {"waited s for the one in front"},
                              {"for the one after"},
                              {"kept at most, bytes"}}};
  for (std::size_t s = 0; s < pipeline.busy_seconds.size(); ++s) {
    const bool has_chunks = pipeline.chunks > 1;  // then each stage has one in front and one behind
    const bool is_last = s + 1 == pipeline.busy_seconds.size() && !has_chunks;
    table.rows.push_back({{std::to_string(s)},
                          {of_cut(pipeline.layers, s)},
                          {of_cut(pipeline.parameters, s)},
                          {as_seconds(pipeline.busy_seconds[s])},
                          {s == 0 && !has_chunks ? "" : as_seconds(pipeline.idle_for_previous_seconds[s])},
                          {is_last ? "" : as_seconds(pipeline.idle_for_next_seconds[s])},
                          {std::to_string(pipeline.peak_activation_bytes[s])}});
  }
  return table;
}

}  // namespace

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
         fence + rendered_lines(schedule::kTimelineLegend, style);
}

}  // namespace paceline
