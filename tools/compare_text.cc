#include <algorithm>

#include "common/printed.h"
#include "common/timing/histogram.h"
#include "tools/compare_output.h"

namespace paceline {
namespace {

using statistics::Better;
using statistics::Comparison;
using statistics::Estimate;
using statistics::Verdict;

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

int name_width(const PolicyComparison& all) {
  std::size_t width = 6;
  for (const RunGroup& group : all.groups) width = std::max(width, group.name.size());
  return static_cast<int>(width);
}

// "412.310 [405.122, 419.498]"; without an interval where there is none, and where seeds draw nothing.
std::string interval(const Estimate& e) {
  if (e.n == 0) return printed("%10s", "none");
  if (!e.has_interval()) return printed("%10.3f%s", e.mean, e.n > 1 ? " (the same with each seed)" : "");
  return printed("%10.3f [%.3f, %.3f]", e.mean, e.low(), e.high());
}

std::string signed_interval(const Comparison& c) {
  const Estimate& e = c.difference;
  if (e.n == 0) return printed("%10s", "none");
  if (!e.has_interval() || !c.scatters) return printed("%+10.3f", e.mean);
  return printed("%+10.3f [%+.3f, %+.3f]", e.mean, e.low(), e.high());
}

std::string groups_text(const PolicyComparison& all) {
  std::string text =
      std::string(all.simulated ? "Simulated" : "Real") + " runs, one group for each configuration\n";
  for (const RunGroup& group : all.groups) {
    text += printed("  %-*s  %zu %s, seeds", name_width(all), group.name.c_str(), group.runs.size(),
                    group.runs.size() == 1 ? "run" : "runs");
    for (const ComparedRun* run : group.runs) text += " " + std::to_string(run->seed);
    text += "\n";
    for (const auto& [key, value] : group.differing) text += "      " + key + ": " + value + "\n";
  }
  return text;
}

// "ssp(3) is faster, by less than 1 point"
std::string verdict_text(const PolicyComparison& all, const ComparedTable& table, const Comparison& c) {
  const bool time = table.better == Better::kSmaller;
  const std::string margin = printed("%g point", kAccuracyMarginPoints);
  switch (c.verdict) {
    case Verdict::kFirstIsBetter:
    case Verdict::kSecondIsBetter: {
      const std::size_t better = c.verdict == Verdict::kFirstIsBetter ? c.first : c.second;
      return all.groups[better].name + (time ? " is faster" : " is better") +
             (c.inside_margin ? ", by less than " + margin : "");
    }
    case Verdict::kEquivalent:
      return "equivalent, within " + margin;
    case Verdict::kTooFewSeeds:
      return "no verdict: fewer than 5 seeds";
    case Verdict::kCensored:
      return "no verdict: censored";
    case Verdict::kNoScatter:
      return "no verdict: the same with each seed, so one run each";
    case Verdict::kUndecided:
      break;
  }
  return "undecided";
}

std::string pair_text(const PolicyComparison& all, const ComparedTable& table, const Comparison& c,
                      int width) {
  const std::string names = all.groups[c.second].name + " - " + all.groups[c.first].name;
  if (c.verdict == Verdict::kCensored) {  // a figure would be one of the runs that did well
    return printed("  %-*s %10s  ", width, names.c_str(), "-") + verdict_text(all, table, c) + "\n";
  }
  std::string text = printed("  %-*s %s", width, names.c_str(), signed_interval(c).c_str());
  const std::optional<double> relative = relative_change(table, c);
  if (relative) text += printed("  %+.2f %%", 100.0 * *relative);
  if (c.difference.n >= 2 && c.scatters) text += printed("  p %.2g", c.adjusted_p);
  return text + printed("  %zu %s: ", c.difference.n, c.difference.n == 1 ? "seed" : "seeds") +
         verdict_text(all, table, c) + "\n";
}

// Who wins, or why nobody does.
std::string winner_text(const PolicyComparison& all, const ComparedTable& table) {
  if (all.groups.size() < 2) return "";
  if (table.winner) return "  winner: " + all.groups[*table.winner].name + "\n";
  std::vector<std::string> why;
  const auto some = [&](Verdict verdict) {
    return std::any_of(table.comparisons.begin(), table.comparisons.end(),
                       [&](const Comparison& c) { return c.verdict == verdict; });
  };
  if (some(Verdict::kCensored)) why.emplace_back("runs are censored");
  if (some(Verdict::kTooFewSeeds)) why.emplace_back("fewer than 5 seeds");
  if (some(Verdict::kNoScatter)) why.emplace_back("the seeds draw nothing");
  if (why.empty()) why.emplace_back("nobody is better than every other");
  return "  no winner: " + joined(why) + "\n";
}

std::string table_text(const PolicyComparison& all, const ComparedTable& table) {
  std::string text = table.title + ", " + table.unit + " (mean over seeds, 95 % interval)\n";
  auto censored = table.censored.begin();  // as many as have no number, in the order of groups
  for (std::size_t i = 0; i < all.groups.size(); ++i) {
    const std::size_t lost = table.samples[i].size() - table.means[i].n;
    text += printed("  %-*s ", name_width(all), all.groups[i].name.c_str());
    text += lost == 0 ? interval(table.means[i])
                      : printed("%10s  %zu of %zu runs censored", "-", lost, table.samples[i].size());
    text += "\n";
    for (std::size_t n = 0; n < lost; ++n) text += "    censored " + *censored++ + "\n";
  }
  const auto scattering = std::count_if(table.comparisons.begin(), table.comparisons.end(),
                                        [](const Comparison& c) { return c.scatters; });
  if (!table.comparisons.empty()) {
    text += printed(
        " differences, paired by seed, 95 %% interval of each pair alone; p corrected for %zu %s (Holm)\n",
        static_cast<std::size_t>(scattering), scattering == 1 ? "pair" : "pairs");
  }
  for (const Comparison& c : table.comparisons) text += pair_text(all, table, c, 2 * name_width(all) + 3);
  return text + winner_text(all, table);
}

std::string split_text(const PolicyComparison& all) {
  const int width = name_width(all);
  std::string text =
      "where the time of a worker went, s (compute: BATCH + COMPUTE_GRADS; apply: APPLY_GRADS + "
      "P_CACHE_PARAM + "
      "T_CACHE_PARAM;\n wait: BARRIER; network: PS_APPLY_GRADS + STEP + PS_PARAM)\n";
  text += printed("  %-*s %19s %19s %19s %19s %12s\n", width, "", "compute", "apply", "wait", "network",
                  "unaccounted");
  for (std::size_t i = 0; i < all.groups.size(); ++i) {
    text += printed("  %-*s", width, all.groups[i].name.c_str());
    if (const auto& split = all.splits[i]) {
      for (const double part : {split->compute(), split->apply(), split->wait(), split->network()}) {
        text += printed(" %10.3f %6.2f %%", part, split->total() > 0.0 ? 100.0 * part / split->total() : 0.0);
      }
      text += printed(" %12.3f", split->unaccounted);
    } else {
      text += "  no run counts";
    }
    text += "\n";
  }
  text += "\n" + printed("  %-*s", width, "phase s");
  for (const char* const phase : kPhaseNames) text += printed(" %14s", phase);
  text += "\n";
  for (std::size_t i = 0; i < all.groups.size(); ++i) {
    if (!all.splits[i]) continue;
    text += printed("  %-*s", width, all.groups[i].name.c_str());
    for (const double seconds : all.splits[i]->phases) text += printed(" %14.3f", seconds);
    text += "\n";
  }
  return text;
}

// Shares of what lies in each of these bins; the last one is open.
struct Bin {
  std::int64_t low, high;
  const char* name;
};
constexpr Bin kBins[] = {{0, 0, "0"},
                         {1, 1, "1"},
                         {2, 2, "2"},
                         {3, 3, "3"},
                         {4, 4, "4"},
                         {5, 8, "5-8"},
                         {9, 16, "9-16"},
                         {17, 32, "17-32"},
                         {33, 63, "33-63"},
                         {64, 127, "64-127"},
                         {128, 255, "128-255"},
                         {256, 511, "256-511"},
                         {512, INT64_MAX, "512+"}};

std::string staleness_table(const PolicyComparison& all, const char* title,
                            StalenessCounts GroupStaleness::* unit) {
  const int width = name_width(all);
  std::string text = std::string(title) + "\n" + printed("  %-*s %8s %7s", width, "", "mean", "max");
  for (const Bin& bin : kBins) text += printed(" %7s", bin.name);
  text += "\n";
  for (std::size_t i = 0; i < all.groups.size(); ++i) {
    const StalenessCounts& counts = all.staleness[i].*unit;
    text += printed("  %-*s", width, all.groups[i].name.c_str());
    if (counts.count == 0) {
      text += "  not recorded\n";
      continue;
    }
    text += printed(" %8.3f %7lld", counts.mean(), static_cast<long long>(counts.max));
    for (const Bin& bin : kBins) {
      std::int64_t inside = 0;
      for (const auto& [bucket, count] : counts.histogram) {
        const std::int64_t staleness = histogram_middle_ns(bucket);
        if (bin.low <= staleness && staleness <= bin.high) inside += count;
      }
      const double share = 100.0 * static_cast<double>(inside) / static_cast<double>(counts.count);
      text += inside == 0 ? printed(" %7s", "-") : printed(" %5.1f %%", share);
    }
    text += "\n";
  }
  return text;
}

}  // namespace

std::string comparison_text(const PolicyComparison& all) {
  std::string text = groups_text(all);
  for (const ComparedTable& table : all.tables) text += "\n" + table_text(all, table);
  const auto has = [&](const char* key) {
    return std::any_of(all.tables.begin(), all.tables.end(),
                       [&](const ComparedTable& t) { return t.key == key; });
  };
  if (!has("time_to_accuracy")) text += "\ntime to accuracy: say which with --target\n";
  if (!all.of_one_length) {
    text += "\ntime at fixed iterations, final test accuracy: the runs are of several lengths\n";
  } else if (!has("accuracy")) {
    text += "\nfinal test accuracy: no run was evaluated\n";
  }
  text += "\n" + split_text(all);
  text += "\n" + staleness_table(all, "staleness of the parameters that gradients were computed with, clocks",
                                 &GroupStaleness::clocks);
  text += "\n" + staleness_table(all, "the same in gradients that were applied meanwhile",
                                 &GroupStaleness::gradients);
  return text;
}

}  // namespace paceline
