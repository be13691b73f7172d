// The tables are for people; for programs there are CSV and JSON (report_data.h).
#include "tools/report_tables.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

namespace paceline {
namespace {

// printf into a string.
template <typename... Values>
std::string line(const char* format, Values... values) {
  const int length = std::snprintf(nullptr, 0, format, values...);
  std::string text(static_cast<std::size_t>(length) + 1, '\0');
  std::snprintf(text.data(), text.size(), format, values...);
  text.pop_back();
  return text;
}

std::string ms(std::int64_t ns) { return line("%.3f", static_cast<double>(ns) * 1e-6); }
std::string seconds(std::int64_t ns) { return line("%.3f", static_cast<double>(ns) * 1e-9); }
std::string percent(std::int64_t part, std::int64_t whole) {
  const double share = whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
  return line("%.2f %%", 100.0 * share);
}

using Row = std::vector<TextCell>;

// The longest phase stands out, those that never occurred step back.
Row phase_row(const char* name, const PhaseStat& stat, std::int64_t wall_ns, std::int64_t longest_ns) {
  const std::int64_t mean = stat.count == 0 ? 0 : stat.total_ns / stat.count;
  Row row{{name},
          {ms(mean)},
          {ms(quantile_ns(stat, 0.5))},
          {ms(quantile_ns(stat, 0.95))},
          {seconds(stat.total_ns)},
          {percent(stat.total_ns, wall_ns)},
          {std::to_string(stat.count)},
          {seconds(stat.hidden_ns)}};
  const bool longest = stat.total_ns > 0 && stat.total_ns == longest_ns;
  const Tone tone = longest ? Tone::kStrong : stat.count == 0 ? Tone::kFaint : Tone::kPlain;
  for (TextCell& cell : row) cell.tone = tone;
  return row;
}

Row sum_row(const char* name, std::int64_t ns, std::int64_t wall_ns) {
  return {{name}, {}, {}, {}, {seconds(ns)}, {percent(ns, wall_ns)}, {}, {}};
}

TextTable phase_table(const std::string& title, const PhaseTotals& totals) {
  TextTable table{.title = title,
                  .indent = 2,
                  .ruled = true,
                  .columns = {{"phase", Align::kLeft},
                              {"mean ms"},
                              {"p50 ms"},
                              {"p95 ms"},
                              {"total s"},
                              {"share"},
                              {"count"},
                              {"hidden s"}}};
  std::int64_t longest_ns = 0;
  for (const PhaseStat& stat : totals.phases) longest_ns = std::max(longest_ns, stat.total_ns);
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    table.rows.push_back(phase_row(kPhaseNames[i], totals.phases[i], totals.wall_ns, longest_ns));
  }
  table.rows.push_back(sum_row("unaccounted", unaccounted_ns(totals), totals.wall_ns));
  table.last_ruled = table.rows.size();
  table.rows.push_back(sum_row("wall", totals.wall_ns, totals.wall_ns));
  return table;
}

std::string seconds_text(const std::optional<double>& known) { return known ? line("%.3f", *known) : "-"; }

std::string accuracy_text(const std::optional<double>& accuracy) {
  return accuracy ? line("%.2f %%", 100.0 * *accuracy) : "not evaluated";
}

// Of a run without a summary.
std::string so_far(const FinishedRun& run) {
  const RunSummary& s = run.summary;
  std::string text;
  if (!s.policy.empty()) {
    text += line("  policy %s, %u nodes x %u threads\n", s.policy.c_str(), s.nodes, s.threads_per_node);
  }
  if (s.final_version > Version(0)) {
    text += line("  version %s after %.3f s, threshold %s\n", to_string(s.final_version).c_str(),
                 s.wall_seconds, to_string(s.final_threshold).c_str());
  }
  if (s.test_accuracy) text += "  test accuracy " + accuracy_text(s.test_accuracy) + " at last\n";
  for (const std::string& missing : run.missing) text += "  " + missing + "\n";
  return text;
}

std::string ending(const FinishedRun& run) {
  const RunSummary& s = run.summary;
  std::string text = run.name + ": " + s.status + (s.reason.empty() ? "" : " (" + s.reason + ")");
  if (s.simulated_seed) text += ", simulated with seed " + std::to_string(*s.simulated_seed);
  text += "\n";
  if (!run.finished) return text + so_far(run);
  text += line("  policy %s, %u nodes x %u threads, %lld iterations in %.3f s, version %s, threshold %s\n",
               s.policy.c_str(), s.nodes, s.threads_per_node, static_cast<long long>(s.iterations),
               s.wall_seconds, to_string(s.final_version).c_str(), to_string(s.final_threshold).c_str());
  text += line("  pushed %.1f MB, pulled %.1f MB in %lld pulls", static_cast<double>(s.bytes_pushed) * 1e-6,
               static_cast<double>(s.bytes_pulled) * 1e-6, static_cast<long long>(s.pulls));
  if (s.bytes_shared > 0) text += line(", shared %.1f MB", static_cast<double>(s.bytes_shared) * 1e-6);
  if (s.bytes_pushed_early > 0) {  // of either
    text += line(", early %.1f MB of gradients, sent or shared",
                 static_cast<double>(s.bytes_pushed_early) * 1e-6);
  }
  text += line(", lost nodes %lld, overruns %lld\n", static_cast<long long>(s.lost_nodes),
               static_cast<long long>(s.overruns));
  if (s.resumed_from) {
    text +=
        line("  resumed from version %lld, generation %llu: phases, bytes and reads are of that alone\n",
             static_cast<long long>(s.resumed_from->value), static_cast<unsigned long long>(s.generation));
  }
  if (s.checkpoints) {
    text += line("  %lld checkpoints written, %lld failed\n", static_cast<long long>(s.checkpoints->written),
                 static_cast<long long>(s.checkpoints->failed));
  }
  if (s.dropped > 0) {
    text += line("  dropped %lld gradients that came too late\n", static_cast<long long>(s.dropped));
  }
  for (std::uint32_t n = 0; s.batch_sizes && n < s.nodes; ++n) {
    const WorkerBatchSizes& sizes = *s.batch_sizes;
    const std::size_t first = std::size_t{n} * s.threads_per_node;
    text += line("  mini-batches of node %u: %s at last, %s in the run\n", n,
                 batch_range(sizes.last, sizes.last, first, s.threads_per_node).c_str(),
                 batch_range(sizes.smallest, sizes.largest, first, s.threads_per_node).c_str());
  }
  for (const PolicyChange& change : s.switches) {
    text += line("  policy %s from version %s on, %.3f s, threshold %s\n", change.policy.c_str(),
                 to_string(change.version).c_str(), change.seconds, to_string(change.threshold).c_str());
  }
  for (const StragglerSummary& slow : s.stragglers) {
    text += line(
        "  straggler %s: %.3f s an iteration at last, %.2f of the fastest worker's speed, %.2f of its own "
        "best\n",
        to_string(slow.worker).c_str(), slow.iteration_seconds, slow.relative, slow.individual);
  }
  for (const std::string& lost : s.lost) text += "  lost " + lost + "\n";
  for (const std::string& returned : s.returned) text += "  came back: " + returned + "\n";
  for (const std::string& late : s.late) text += "  came late: " + late + "\n";
  text += "  test accuracy " + accuracy_text(s.test_accuracy);
  if (s.test_loss) text += line(", test loss %.4f", *s.test_loss);
  text += "\n";
  for (const std::string& missing : run.missing) text += "  " + missing + "\n";
  return text;
}

// "-12.3 %": the change from the first run to another; "" for the first run itself, and where either says
// nothing or cannot be compared.
class Changes {
 public:
  Changes(const FinishedRun& first, const FinishedRun& run)
      : shown_(&run != &first && is_comparable(first) && is_comparable(run)) {}

  // Less is better.
  TextCell percent(const std::optional<double>& first, const std::optional<double>& now) const {
    if (!shown_ || !first || !now) return {};
    const Tone tone = *now < *first ? Tone::kGood : *now > *first ? Tone::kBad : Tone::kPlain;
    if (*first == 0.0) return {*now == 0.0 ? "0.0 %" : "new", tone};
    return {line("%+.1f %%", 100.0 * (*now - *first) / *first), tone};
  }
  // More is better.
  TextCell points(const std::optional<double>& first, const std::optional<double>& now) const {
    if (!shown_ || !first || !now) return {};
    const Tone tone = *now > *first ? Tone::kGood : *now < *first ? Tone::kBad : Tone::kPlain;
    return {line("%+.2f points", 100.0 * (*now - *first)), tone};
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

// One line each, with the changes against the first.
TextTable run_comparison(std::span<const FinishedRun> runs) {
  TextTable table{.columns = {{"run", Align::kLeft},
                              {"status", Align::kLeft},
                              {"policy", Align::kLeft},
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
  const FinishedRun& reference = runs.front();
  const Times first = times_of(reference);
  for (const FinishedRun& run : runs) {
    const Changes changes(reference, run);
    const Times t = times_of(run);
    const RunSummary& s = run.summary;
    Row row{{run.name, Tone::kStrong}, {s.status, s.status == "ok" ? Tone::kGood : Tone::kBad}, {s.policy}};
    for (const auto field : {&Times::barrier, &Times::network, &Times::compute, &Times::total}) {
      row.push_back({seconds_text(t.*field)});
      row.push_back(changes.percent(first.*field, t.*field));
    }
    row.push_back({run.has_progress ? accuracy_text(s.test_accuracy) : "-"});
    row.push_back(changes.points(reference.summary.test_accuracy, s.test_accuracy));
    table.rows.push_back(std::move(row));
  }
  return table;
}

// The nine phases, a column for each run.
TextTable phase_comparison(std::span<const FinishedRun> runs) {
  TextTable table{.columns = {{"phase s", Align::kLeft}}};
  for (const std::string& name : headings(runs)) {
    table.columns.push_back({name});
    table.columns.push_back({""});
  }
  const auto add = [&](const char* name, auto total_seconds) {
    Row row{{name}};
    const std::optional<double> first = per_worker(runs.front(), total_seconds(runs.front().summary));
    for (const FinishedRun& run : runs) {
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
  return table;
}

}  // namespace

std::string phase_report(const FinishedRun& run, TextStyle style) {
  std::map<NodeId, PhaseTotals> nodes;
  PhaseTotals all;
  for (const auto& [worker, totals] : run.workers) {
    merge(nodes[worker.node], totals);
    merge(all, totals);
  }
  const std::string end = rendered_lines(ending(run), style);
  if (run.workers.empty()) return end;  // nobody trained, or nobody could report
  std::string text;
  for (const auto& [node, totals] : nodes) {
    text += rendered(phase_table("node " + to_string(node), totals), style) + "\n";
  }
  const std::string title = "all nodes (" + std::to_string(run.workers.size()) + " workers)";
  return text + rendered(phase_table(title, all), style) + "\n" + end;
}

std::string comparison(std::span<const FinishedRun> runs, TextStyle style) {
  std::string text = "Seconds for each worker (network: PS_APPLY_GRADS + STEP + PS_PARAM); changes against " +
                     runs.front().name + "\n";
  if (style == TextStyle::kMarkdown) text += "\n";
  text += rendered(run_comparison(runs), style) + "\n" + rendered(phase_comparison(runs), style);
  std::string notes;
  for (const FinishedRun& run : runs) {
    for (const std::string& caveat : caveats_of(run)) {
      notes += (style == TextStyle::kMarkdown ? "- " : "") + run.name + ": " + caveat + "\n";
    }
  }
  return notes.empty() ? text : text + "\n" + notes;
}

}  // namespace paceline
