#include "tools/runs_tables.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "tools/report_numbers.h"

namespace paceline {
namespace {

using TableRow = std::vector<TextCell>;

// "-12.3 %": the change from the first run to another; "" for the first run itself, and where either says
// nothing or cannot be compared, or there is nothing to be seen.
class Changes {
 public:
  Changes(const FinishedRun& first, const FinishedRun& run)
      : shown_(&run != &first && is_comparable(first) && is_comparable(run)) {}

  // Of seconds: less is better.
  TextCell percent(const std::optional<double>& first, const std::optional<double>& now) const {
    constexpr double kNoise = 0.001;  // s: twice nothing is no news
    if (!shown_ || !first || !now || (*first < kNoise && *now < kNoise)) return {};
    if (seconds_text(first) == seconds_text(now)) return {};
    const Tone tone = *now < *first ? Tone::kGood : *now > *first ? Tone::kBad : Tone::kPlain;
    if (seconds_text(first) == seconds_text(0.0)) return {"new", tone};
    const double change = 100.0 * (*now - *first) / *first;
    return {printed("%+.1f %%", change), std::fabs(change) < 0.05 ? Tone::kPlain : tone};
  }
  // More is better.
  TextCell points(const std::optional<double>& first, const std::optional<double>& now) const {
    if (!shown_ || !first || !now || accuracy_text(first) == accuracy_text(now)) return {};
    const Tone tone = *now > *first ? Tone::kGood : *now < *first ? Tone::kBad : Tone::kPlain;
    return {printed("%+.2f points", 100.0 * (*now - *first)), tone};
  }

 private:
  bool shown_;
};

// Column headings: the last part of each run's name, where that tells them apart.
std::vector<std::string> headings(std::span<const FinishedRun> runs) {
  std::vector<std::string> names;
  std::set<std::string> distinct;
  for (const FinishedRun& run : runs) {
    std::filesystem::path path(run.name);
    if (path.filename().empty()) path = path.parent_path();  // "runs/bsp/"
    names.push_back(path.filename().string());
    distinct.insert(names.back());
  }
  if (distinct.size() == runs.size()) return names;
  for (std::size_t i = 0; i < runs.size(); ++i) names[i] = runs[i].name;
  return names;
}

// A run's four times and its accuracy, and how they changed.
struct Numbers {
  TableRow values;
  TableRow changes;
};

Numbers numbers_of(const FinishedRun& reference, const FinishedRun& run) {
  const Changes changes(reference, run);
  const Times first = times_of(reference), t = times_of(run);
  Numbers numbers;
  for (const auto field : {&Times::barrier, &Times::network, &Times::compute, &Times::total}) {
    numbers.values.push_back({seconds_text(t.*field)});
    numbers.changes.push_back(changes.percent(first.*field, t.*field));
  }
  numbers.values.push_back({run.has_progress ? accuracy_text(run.summary.test_accuracy) : "-"});
  numbers.changes.push_back(changes.points(reference.summary.test_accuracy, run.summary.test_accuracy));
  return numbers;
}

TextCell status_cell(const FinishedRun& run) {
  const std::string status = status_of(run.summary);
  return {status, status == "ok" ? Tone::kGood : Tone::kBad};
}

std::string iterations_text(const FinishedRun& run) {
  const std::optional<std::int64_t> iterations = iterations_of(run);
  return iterations ? std::to_string(*iterations) : "-";
}

// One line each, with the changes against the first after the numbers.
TextTable wide_runs(std::span<const FinishedRun> runs) {
  TextTable table{.columns = {{"run", Align::kLeft},
                              {"status", Align::kLeft},
                              {"policy", Align::kLeft},
                              {"iterations"},
                              {"barrier s"},
                              {""},
                              {"network s"},
                              {""},
                              {"compute s"},
                              {""},
                              {"total s"},
                              {""},
                              {"test accuracy"},
                              {""}}};
  for (const FinishedRun& run : runs) {
    const Numbers numbers = numbers_of(runs.front(), run);
    TableRow row{{run.name, Tone::kStrong}, status_cell(run), {run.summary.policy}, {iterations_text(run)}};
    for (std::size_t i = 0; i < numbers.values.size(); ++i) {
      row.push_back(numbers.values[i]);
      row.push_back(numbers.changes[i]);
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

// A line for the name, one for the numbers, and one below it for the changes.
TextTable narrow_runs(std::span<const FinishedRun> runs) {
  TextTable table{.indent = 2,
                  .columns = {{"barrier s"}, {"network s"}, {"compute s"}, {"total s"}, {"test accuracy"}}};
  for (const FinishedRun& run : runs) {
    const Numbers numbers = numbers_of(runs.front(), run);
    std::string name = run.name + ": " + status_of(run.summary);
    if (!run.summary.policy.empty()) name += ", " + run.summary.policy;
    if (iterations_of(run)) name += ", " + iterations_text(run) + " iterations";
    table.rows.push_back({{name, Tone::kStrong}});
    table.rows.push_back(numbers.values);
    const bool changed = std::any_of(numbers.changes.begin(), numbers.changes.end(),
                                     [](const TextCell& cell) { return !cell.text.empty(); });
    if (changed) table.rows.push_back(numbers.changes);
  }
  return table;
}

// What is left up to the run's total: a worker had finished while others still trained, took no part yet, or
// the run stood still. No row where no run has any.
void add_rest(TextTable& table, std::span<const FinishedRun> runs) {
  constexpr double kLeast = 0.001;
  TableRow row{{"not training"}};
  bool any = false;
  for (const FinishedRun& run : runs) {
    double in_phases = run.summary.unaccounted_seconds;
    for (const PhaseSum& sum : run.summary.phases) in_phases += sum.total_seconds;
    const std::optional<double> own = per_worker(run, in_phases), total = times_of(run).total;
    std::optional<double> rest;
    // The phases of a resumed run are of the last of its generations.
    if (own && total && !run.summary.resumed_from) rest = std::max(*total - *own, 0.0);
    any = any || (rest && *rest > kLeast);
    row.push_back({seconds_text(rest)});
    row.push_back({});
  }
  if (any) table.rows.push_back(std::move(row));
}

// The nine phases, a column for each of the runs from `from` up to `until`.
TextTable phases_of(std::span<const FinishedRun> runs, std::size_t from, std::size_t until) {
  TextTable table{.columns = {{"phase s", Align::kLeft}}};
  const std::vector<std::string> names = headings(runs);
  for (std::size_t i = from; i < until; ++i) {
    table.columns.push_back({names[i]});
    table.columns.push_back({""});
  }
  const auto add = [&](const char* name, auto total_seconds) {
    TableRow row{{name}};
    const std::optional<double> first = per_worker(runs.front(), total_seconds(runs.front().summary));
    for (const FinishedRun& run : runs.subspan(from, until - from)) {
      const std::optional<double> now = per_worker(run, total_seconds(run.summary));
      row.push_back({seconds_text(now)});
      row.push_back(Changes(runs.front(), run).percent(first, now));
    }
    table.rows.push_back(std::move(row));
  };
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    add(kPhaseNames[i], [i](const RunSummary& s) { return s.phases[i].total_seconds; });
  }
  add("unaccounted", [](const RunSummary& s) { return s.unaccounted_seconds; });
  add_rest(table, runs.subspan(from, until - from));
  return table;
}

// As many runs beside each other as fit, at least one.
std::string phase_comparison(std::span<const FinishedRun> runs, TextStyle style, std::size_t columns) {
  std::string text;
  for (std::size_t from = 0, until; from < runs.size(); from = until) {
    until = columns == 0 ? runs.size() : from + 1;
    while (until < runs.size() && width_of(phases_of(runs, from, until + 1)) <= columns) ++until;
    text += (from == 0 ? "" : "\n") + rendered(phases_of(runs, from, until), style);
  }
  return text;
}

}  // namespace

std::string comparison(std::span<const FinishedRun> runs, TextStyle style, std::size_t columns) {
  if (style == TextStyle::kMarkdown) columns = 0;
  std::string text = "Seconds for each worker (network: PS_APPLY_GRADS + STEP + PS_PARAM)";
  text +=
      (columns == 0 ? "; changes" : "\nChanges are") + std::string(" against ") + runs.front().name + "\n";
  if (style == TextStyle::kMarkdown) text += "\n";
  TextTable table = wide_runs(runs);
  if (columns > 0 && width_of(table) > columns) table = narrow_runs(runs);
  text += rendered(table, style) + "\n" + phase_comparison(runs, style, columns);
  std::string notes;
  for (const FinishedRun& run : runs) {
    for (const std::string& caveat : caveats_of(run)) {
      notes += (style == TextStyle::kMarkdown ? "- " : "") + run.name + ": " + caveat + "\n";
    }
  }
  return notes.empty() ? text : text + "\n" + notes;
}

}  // namespace paceline
