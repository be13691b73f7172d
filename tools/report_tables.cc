// Columns of fixed width: the tables are for the terminal, the CSV files for programs.
#include "tools/report_tables.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "common/report/counted.h"

namespace paceline {
namespace {

constexpr const char* kRule =
    "  ---------------------------------------------------------------------------------------\n";

// printf into a string.
template <typename... Values>
std::string line(const char* format, Values... values) {
  const int length = std::snprintf(nullptr, 0, format, values...);
  std::string text(static_cast<std::size_t>(length) + 1, '\0');
  std::snprintf(text.data(), text.size(), format, values...);
  text.pop_back();
  return text;
}

double ms(std::int64_t ns) { return static_cast<double>(ns) * 1e-6; }
double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }
double percent(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string phase_row(const char* name, const PhaseStat& stat, std::int64_t wall_ns) {
  const std::int64_t mean = stat.count == 0 ? 0 : stat.total_ns / stat.count;
  return line("  %-14s %10.3f %10.3f %10.3f %11.3f %7.2f %%%9lld %10.3f\n", name, ms(mean),
              ms(quantile_ns(stat, 0.5)), ms(quantile_ns(stat, 0.95)), seconds(stat.total_ns),
              percent(stat.total_ns, wall_ns), static_cast<long long>(stat.count), seconds(stat.hidden_ns));
}

std::string phase_table(const std::string& title, const PhaseTotals& totals) {
  std::string text = title + "\n";
  text += line("  %-14s %10s %10s %10s %11s %9s %8s %10s\n", "phase", "mean ms", "p50 ms", "p95 ms",
               "total s", "share", "count", "hidden s");
  text += kRule;
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    text += phase_row(kPhaseNames[i], totals.phases[i], totals.wall_ns);
  }
  const std::int64_t rest = unaccounted_ns(totals);
  text += line("  %-14s %10s %10s %10s %11.3f %7.2f %%\n", "unaccounted", "", "", "", seconds(rest),
               percent(rest, totals.wall_ns));
  text += kRule;
  text += line("  %-14s %10s %10s %10s %11.3f %7.2f %%\n", "wall", "", "", "", seconds(totals.wall_ns),
               percent(totals.wall_ns, totals.wall_ns));
  return text;
}

std::string accuracy_text(const std::optional<double>& accuracy) {
  return accuracy ? line("%.2f %%", 100.0 * *accuracy) : "not evaluated";
}

std::string ending(const FinishedRun& run) {
  const RunSummary& s = run.summary;
  std::string text = run.name + ": " + s.status + (s.reason.empty() ? "" : " (" + s.reason + ")");
  if (s.simulated_seed) text += ", simulated with seed " + std::to_string(*s.simulated_seed);
  text += "\n";
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
  for (const std::string& lost : s.lost) text += "  lost " + lost + "\n";
  for (const std::string& returned : s.returned) text += "  came back: " + returned + "\n";
  for (const std::string& late : s.late) text += "  came late: " + late + "\n";
  text += "  test accuracy " + accuracy_text(s.test_accuracy);
  if (s.test_loss) text += line(", test loss %.4f", *s.test_loss);
  return text + "\n";
}

// What the comparison shows of a run, in seconds for each worker.
struct Times {
  double barrier, network, compute, total;
};

// The phases of a summary are sums over the workers that reported; those of a lost node did not.
double per_worker(const FinishedRun& run, double total_seconds) {
  return total_seconds / static_cast<double>(std::max<std::size_t>(run.workers.size(), 1));
}

Times times_of(const FinishedRun& run) {
  const RunSummary& s = run.summary;
  const auto mean = [&](Phase phase) { return per_worker(run, s[phase].total_seconds); };
  return {mean(Phase::kBarrier), mean(Phase::kPsApplyGrads) + mean(Phase::kStep) + mean(Phase::kPsParam),
          mean(Phase::kComputeGrads), s.wall_seconds};
}

// The times of a run that failed, was stopped, overran its emulation or lost nodes are not its policy's.
bool is_comparable(const FinishedRun& run) { return fault_of(run.summary).empty(); }

// "-12.3 %": the change from `first` to `now`; "" for the first run itself, and where either says nothing.
class Changes {
 public:
  Changes(const FinishedRun& first, const FinishedRun& run)
      : shown_(&run != &first && is_comparable(first) && is_comparable(run)) {}

  std::string percent(double first, double now) const {
    if (!shown_) return "";
    if (first == 0.0) return now == 0.0 ? "0.0 %" : "new";
    return line("%+.1f %%", 100.0 * (now - first) / first);
  }
  std::string points(const std::optional<double>& first, const std::optional<double>& now) const {
    if (!shown_ || !first || !now) return "";
    return line("%+.2f points", 100.0 * (*now - *first));
  }
  std::string cell(double first, double now) const {
    return line("%10.3f %9s", now, percent(first, now).c_str());
  }

 private:
  bool shown_;
};

// Without the blanks that fill its last column.
std::string ended(std::string row) {
  row.erase(row.find_last_not_of(' ') + 1);
  return row + "\n";
}

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

// The nine phases, a column for each run.
std::string phase_comparison(std::span<const FinishedRun> runs) {
  const std::vector<std::string> names = headings(runs);
  const auto row = [&](const char* name, auto total_seconds) {
    std::string text = line("%-14s", name);
    const double first = per_worker(runs.front(), total_seconds(runs.front().summary));
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const double now = per_worker(runs[i], total_seconds(runs[i].summary));
      const int width = static_cast<int>(std::max<std::size_t>(names[i].size(), 20));
      text += line(" %*s", width, Changes(runs.front(), runs[i]).cell(first, now).c_str());
    }
    return ended(text);
  };
  std::string text = line("%-14s", "phase s");
  for (const std::string& name : names) text += line(" %20s", name.c_str());
  text += "\n";
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    text += row(kPhaseNames[i], [i](const RunSummary& s) { return s.phases[i].total_seconds; });
  }
  return text + row("unaccounted", [](const RunSummary& s) { return s.unaccounted_seconds; });
}

// Why not to trust the times of a run, a line for each reason; "" when there is none.
std::string caveats(const FinishedRun& run) {
  const RunSummary& s = run.summary;
  std::string text;
  if (s.status != "ok") {
    text += run.name + ": " + s.status + ", so without changes" + (s.reason.empty() ? "" : ": " + s.reason) +
            "\n";
  }
  if (s.lost_nodes > 0) {
    text += run.name + line(
                           ": %lld of %u nodes lost, so without changes; seconds are of the %zu workers that "
                           "reported\n",
                           static_cast<long long>(s.lost_nodes), s.nodes, run.workers.size());
  }
  if (s.simulated_seed)
    text += run.name + ": simulated with seed " + std::to_string(*s.simulated_seed) + "\n";
  if (s.overruns > 0 && s.status != "invalid") {
    text += run.name + line(": %lld emulated steps overran\n", static_cast<long long>(s.overruns));
  }
  return text;
}

}  // namespace

std::string phase_report(const FinishedRun& run) {
  std::map<NodeId, PhaseTotals> nodes;
  PhaseTotals all;
  for (const auto& [worker, totals] : run.workers) {
    merge(nodes[worker.node], totals);
    merge(all, totals);
  }
  if (run.workers.empty()) return ending(run);  // nobody trained, or nobody could report
  std::string text;
  for (const auto& [node, totals] : nodes) text += phase_table("node " + to_string(node), totals) + "\n";
  text += phase_table("all nodes (" + std::to_string(run.workers.size()) + " workers)", all) + "\n";
  return text + ending(run);
}

std::string comparison(std::span<const FinishedRun> runs) {
  const FinishedRun& reference = runs.front();
  std::size_t width = 3;
  for (const FinishedRun& run : runs) width = std::max(width, run.name.size());
  const int w = static_cast<int>(width);
  std::string text = "Seconds for each worker (network: PS_APPLY_GRADS + STEP + PS_PARAM); changes against " +
                     reference.name + "\n";
  text += line("%-*s  %-7s %-6s %19s %19s %19s %19s  %s\n", w, "run", "status", "policy", "barrier s        ",
               "network s        ", "compute s        ", "total s        ", "test accuracy");
  const Times first = times_of(reference);
  std::string notes;
  for (const FinishedRun& run : runs) {
    const Changes changes(reference, run);
    const Times t = times_of(run);
    const auto cell = [&](double Times::*field) { return changes.cell(first.*field, t.*field); };
    text += ended(line("%-*s  %-7s %-6s%s%s%s%s  %s  %s", w, run.name.c_str(), run.summary.status.c_str(),
                       run.summary.policy.c_str(), cell(&Times::barrier).c_str(),
                       cell(&Times::network).c_str(), cell(&Times::compute).c_str(),
                       cell(&Times::total).c_str(), accuracy_text(run.summary.test_accuracy).c_str(),
                       changes.points(reference.summary.test_accuracy, run.summary.test_accuracy).c_str()));
    notes += caveats(run);
  }
  text += "\n" + phase_comparison(runs);
  return notes.empty() ? text : text + "\n" + notes;
}

}  // namespace paceline
