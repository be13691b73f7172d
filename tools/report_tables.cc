// The tables are for people; for programs there are CSV and JSON (report_data.h).
#include "tools/report_tables.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "common/report/local_rounds.h"
#include "tools/report_numbers.h"

namespace paceline {
namespace {

std::string ms(std::int64_t ns) { return printed("%.3f", static_cast<double>(ns) * 1e-6); }
std::string seconds(std::int64_t ns) { return printed("%.3f", static_cast<double>(ns) * 1e-9); }
std::string percent(std::int64_t part, std::int64_t whole) {
  const double share = whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
  return printed("%.2f %%", 100.0 * share);
}

using Row = std::vector<TextCell>;

// The longest phase stands out, those that never occurred step back.
Row phase_row(const char* name, const PhaseStat& stat, std::int64_t wall_ns, std::int64_t longest_ns) {
  const std::int64_t mean = stat.count == 0 ? 0 : stat.total_ns / stat.count;
  const auto if_counted = [&](std::string text) {
    return TextCell{is_counted(stat) ? std::move(text) : "-"};
  };
  Row row{{name},
          if_counted(ms(mean)),
          if_counted(ms(quantile_ns(stat, 0.5))),
          if_counted(ms(quantile_ns(stat, 0.95))),
          {seconds(stat.total_ns)},
          {percent(stat.total_ns, wall_ns)},
          if_counted(std::to_string(stat.count)),
          if_counted(seconds(stat.hidden_ns))};
  const bool longest = stat.total_ns > 0 && stat.total_ns == longest_ns;
  const Tone tone = longest                                 ? Tone::kStrong
                    : stat.total_ns == 0 && stat.count == 0 ? Tone::kFaint
                                                            : Tone::kPlain;
  for (TextCell& cell : row) cell.tone = tone;
  return row;
}

Row sum_row(const std::string& name, std::int64_t ns, std::int64_t wall_ns) {
  return {{name}, {}, {}, {}, {seconds(ns)}, {percent(ns, wall_ns)}, {}, {}};
}

// The workers of a node, or all, summed.
struct NodeSum {
  std::int64_t workers = 0;
  PhaseTotals totals = {};
};

TextTable phase_table(const std::string& title, const NodeSum& sum) {
  const PhaseTotals& totals = sum.totals;
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
  const std::string of = sum.workers == 1 ? "wall" : "wall, " + std::to_string(sum.workers) + " workers";
  table.rows.push_back(sum_row(of, totals.wall_ns, totals.wall_ns));
  return table;
}

// A row for each node.
TextTable node_table(const std::map<NodeId, NodeSum>& sums) {
  TextTable table{.title = "nodes: seconds of a worker (mean; network: PS_APPLY_GRADS + STEP + PS_PARAM)",
                  .indent = 2,
                  .ruled = true,
                  .columns = {{"node", Align::kLeft},
                              {"workers"},
                              {"compute s"},
                              {"barrier s"},
                              {"network s"},
                              {"other s"},
                              {"wall s"}}};
  for (const auto& [node, sum] : sums) {
    const PhaseTotals& t = sum.totals;
    const std::int64_t compute = t[Phase::kComputeGrads].total_ns, barrier = t[Phase::kBarrier].total_ns;
    const std::int64_t network =
        t[Phase::kPsApplyGrads].total_ns + t[Phase::kStep].total_ns + t[Phase::kPsParam].total_ns;
    Row row{{to_string(node)}, {std::to_string(sum.workers)}};
    for (const std::int64_t ns :
         {compute, barrier, network, t.wall_ns - compute - barrier - network, t.wall_ns}) {
      row.push_back({seconds(ns / sum.workers)});
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Of a run without a summary.
std::string so_far(const FinishedRun& run) {
  const RunSummary& s = run.summary;
  std::string text;
  if (!s.policy.empty()) {
    text += "  policy " + s.policy;
    if (run.has_config) text += printed(", %u nodes x %u threads", s.nodes, s.threads_per_node);
    text += "\n";
  }
  if (s.final_version > Version(0)) {
    text += printed("  version %s after %.3f s, threshold %s\n", to_string(s.final_version).c_str(),
                    s.wall_seconds, to_string(s.final_threshold).c_str());
  }
  if (s.test_accuracy) text += "  test accuracy " + accuracy_text(s.test_accuracy) + " at last\n";
  for (const std::string& missing : run.missing) text += "  " + missing + "\n";
  return text;
}

// "  a, b, c", of those that say something.
std::string listed(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (!part.empty()) text += (text.empty() ? "  " : ", ") + part;
  }
  return text.empty() ? text : text + "\n";
}

// "in 20 rounds of 10 mini-batches"; empty without local steps.
std::string local_steps_of(const RunSummary& s) {
  const std::optional<LocalRounds> of = local_rounds(s);
  if (!of) return "";
  std::string text =
      printed("in %lld rounds of %.6g mini-batches", static_cast<long long>(of->rounds), of->mini_batches);
  if (of->differ) text += " on average";
  if (of->computed) text += printed(", of which %lld were computed", static_cast<long long>(*of->computed));
  return text;
}

// What a summary of an older version lacks, and no other file says, is left out.
std::string what_it_was(const FinishedRun& run) {
  const RunSummary& s = run.summary;
  const std::optional<std::int64_t> iterations = iterations_of(run);
  std::string done = (iterations ? std::to_string(*iterations) : "unknown") + " iterations";
  if (run.has_progress) done += printed(" in %.3f s", s.wall_seconds);
  return listed({s.policy.empty() ? "" : "policy " + s.policy,
                 run.has_config ? printed("%u nodes x %u threads", s.nodes, s.threads_per_node) : "", done,
                 local_steps_of(s), run.has_progress ? "version " + to_string(s.final_version) : "",
                 run.has_threshold ? "threshold " + to_string(s.final_threshold) : ""});
}

std::string what_it_moved(const FinishedRun& run) {
  const RunSummary& s = run.summary;
  const auto known = [&](const char* key, std::string text) { return run.lacks(key) ? "" : text; };
  // Nodes and shards report at the end: of a run that failed a 0 is what nobody has said.
  const auto counted = [&](const char* key, std::int64_t count, std::string text) {
    return count == 0 && s.status == "failed" ? "" : known(key, std::move(text));
  };
  const auto megabytes = [](std::int64_t bytes) {
    return printed("%.1f MB", static_cast<double>(bytes) * 1e-6);
  };
  std::string pulled = counted("bytes_pulled", s.bytes_pulled, "pulled " + megabytes(s.bytes_pulled));
  if (!pulled.empty()) pulled += known("pulls", printed(" in %lld pulls", static_cast<long long>(s.pulls)));
  return listed(
      {counted("bytes_pushed", s.bytes_pushed, "pushed " + megabytes(s.bytes_pushed)), pulled,
       s.bytes_shared > 0 ? "shared " + megabytes(s.bytes_shared) : "",
       s.bytes_reduced ? counted("bytes_reduced", *s.bytes_reduced,
                                 "reduced " + megabytes(*s.bytes_reduced) + " from node to node")
                       : "",
       s.bus_bytes_per_second > 0 ? printed("bus %.3g GB/s", s.bus_bytes_per_second * 1e-9) : "",
       s.bytes_pushed_early > 0  // of any of these
           ? "early " + megabytes(s.bytes_pushed_early) + " of gradients, while the rest was computed"
           : "",
       known("lost_nodes", printed("lost nodes %lld", static_cast<long long>(s.lost_nodes))),
       counted("overruns", s.overruns, printed("overruns %lld", static_cast<long long>(s.overruns)))});
}

// How an all-reduce summed, a line for each size of buckets.
std::string how_it_summed(const FinishedRun& run) {
  std::string text;
  for (const std::string& line : run.summary.algorithms) text += "  summed, " + line + "\n";
  return text;
}

std::string ending(const FinishedRun& run) {
  const RunSummary& s = run.summary;
  std::string text = run.name + ": " + s.status + (s.reason.empty() ? "" : " (" + s.reason + ")");
  if (s.simulated_seed) text += ", simulated with seed " + std::to_string(*s.simulated_seed);
  text += "\n";
  if (!run.finished) return text + so_far(run);
  text += what_it_was(run) + what_it_moved(run) + how_it_summed(run);
  if (s.resumed_from) {
    text += printed(
        "  resumed from version %lld, generation %llu: phases, bytes and reads are of that alone; "
        "who was lost after that version before is in server.log\n",
        static_cast<long long>(s.resumed_from->value), static_cast<unsigned long long>(s.generation));
  }
  if (s.checkpoints) {
    text +=
        printed("  %lld checkpoints written, %lld failed\n", static_cast<long long>(s.checkpoints->written),
                static_cast<long long>(s.checkpoints->failed));
  }
  if (s.dropped > 0) {
    text += printed("  dropped %lld gradients that came too late\n", static_cast<long long>(s.dropped));
  }
  for (const NodeSamples& of : samples_of_nodes(s)) {
    text += printed("  %s of node %u: %s at last, %s in the run\n",
                    s.rounds ? "samples in a round" : "mini-batches", of.node, of.last.c_str(),
                    of.in_run.c_str());
  }
  for (const PolicyChange& change : s.switches) {
    text += printed("  policy %s from version %s on, %.3f s, threshold %s\n", change.policy.c_str(),
                    to_string(change.version).c_str(), change.seconds, to_string(change.threshold).c_str());
  }
  for (const StragglerSummary& slow : s.stragglers) {
    text += printed(
        "  straggler %s: computed %.3f ms an iteration at last, %.2f of the fastest worker's speed%s, %.2f "
        "of "
        "its own best\n",
        to_string(slow.worker).c_str(), slow.iteration_seconds * 1e3, slow.relative,
        s.pipeline ? " of its stage" : "", slow.individual);
  }
  if (const std::string skipped = skipped_of(s); !skipped.empty()) text += "  " + skipped + "\n";
  if (const std::string dropped = dropped_lines_of(s); !dropped.empty()) text += "  " + dropped + "\n";
  for (const std::string& lost : s.lost) text += "  lost " + lost + "\n";
  // What was begun and not applied is a part of what was left: others have done it, or it is undone.
  const char* const leavers = s.lost_nodes > 0 ? "the lost" : "nodes which finished early";
  if (s.iterations_undone > 0) {
    text += printed("  %lld iterations that %s left were done by nobody (begun by them were %lld)\n",
                    static_cast<long long>(s.iterations_undone), leavers,
                    static_cast<long long>(s.iterations_lost));
  } else if (s.iterations_lost > 0) {
    text += printed("  iterations that %s had begun, and that were not applied: %lld\n", leavers,
                    static_cast<long long>(s.iterations_lost));
  }
  for (const std::string& returned : s.returned) text += "  came back: " + returned + "\n";
  for (const std::string& late : s.late) text += "  came late: " + late + "\n";
  if (s.reconnects > 0) {
    text += printed("  connections that broke, and others took their place: %lld\n",
                    static_cast<long long>(s.reconnects));
  }
  text += "  test accuracy " + accuracy_text(s.test_accuracy);
  if (s.test_loss) text += printed(", test loss %.4f", *s.test_loss);
  text += "\n";
  for (const std::string& missing : run.missing) text += "  " + missing + "\n";
  return text;
}

}  // namespace

std::string phase_report(const FinishedRun& run, TextStyle style, Nodes nodes) {
  std::map<NodeId, NodeSum> sums;
  NodeSum all;
  for (const auto& [worker, totals] : run.workers) {
    for (NodeSum* const sum : {&sums[worker.node], &all}) {
      ++sum->workers;
      merge(sum->totals, totals);
    }
  }
  std::string text = rendered_lines(ending(run), style);
  if (run.workers.empty()) return text;  // nobody trained, or nobody could report
  if (nodes == Nodes::kEachPhase) {
    for (const auto& [node, sum] : sums) {
      text += "\n" + rendered(phase_table("node " + to_string(node), sum), style);
    }
  } else if (sums.size() > 1) {
    text += "\n" + rendered(node_table(sums), style);
  }
  const std::string title = "all nodes (" + std::to_string(run.workers.size()) + " workers)";
  return text + "\n" + rendered(phase_table(title, all), style);
}

}  // namespace paceline
