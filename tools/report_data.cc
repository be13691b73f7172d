#include "tools/report_data.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "common/report/csv.h"

namespace paceline {
namespace {

using ReportJson = nlohmann::ordered_json;

double ms_of(std::int64_t ns) { return static_cast<double>(ns) / 1e6; }
double mean_ms_of(const PhaseStat& stat) {
  return stat.count == 0 ? 0.0 : ms_of(stat.total_ns) / static_cast<double>(stat.count);
}
double share_of(std::int64_t part_ns, std::int64_t whole_ns) {
  return whole_ns == 0 ? 0.0 : static_cast<double>(part_ns) / static_cast<double>(whole_ns);
}

// The workers of a node, or all, summed.
struct WorkerSum {
  int workers = 0;
  PhaseTotals totals;

  void add(const PhaseTotals& worker) {
    ++workers;
    merge(totals, worker);
  }
};

struct WorkerSums {
  std::map<NodeId, WorkerSum> nodes;
  WorkerSum all;
};

WorkerSums sums_of(const FinishedRun& run) {
  WorkerSums sums;
  for (const auto& [worker, totals] : run.workers) {
    sums.nodes[worker.node].add(totals);
    sums.all.add(totals);
  }
  return sums;
}

// ---- CSV

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string cell = "\"";
  for (const char c : text) cell += c == '"' ? std::string("\"\"") : std::string(1, c);
  return cell + "\"";
}

std::string optional_text(const std::optional<double>& number) { return number ? csv::text_of(*number) : ""; }

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& cell : cells) line += (line.empty() ? "" : ",") + quoted(cell);
  return line + "\n";
}

std::string phase_lines(const std::string& run, const std::string& node, const PhaseTotals& totals) {
  std::string lines;
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    const PhaseStat& stat = totals.phases[i];
    const auto if_counted = [&](std::string text) { return is_counted(stat) ? std::move(text) : ""; };
    lines += csv_line(
        {run, node, kPhaseNames[i], if_counted(std::to_string(stat.count)), csv::seconds_of(stat.total_ns),
         if_counted(csv::text_of(mean_ms_of(stat))), if_counted(csv::text_of(ms_of(quantile_ns(stat, 0.5)))),
         if_counted(csv::text_of(ms_of(quantile_ns(stat, 0.95)))),
         csv::text_of(share_of(stat.total_ns, totals.wall_ns)), if_counted(csv::seconds_of(stat.hidden_ns))});
  }
  const std::int64_t rest_ns = unaccounted_ns(totals);
  return lines + csv_line({run, node, "unaccounted", "", csv::seconds_of(rest_ns), "", "", "",
                           csv::text_of(share_of(rest_ns, totals.wall_ns)), ""});
}

std::string csv_of_one(const FinishedRun& run) {
  std::string text = "run,node,phase,count,total_seconds,mean_ms,p50_ms,p95_ms,share,hidden_seconds\n";
  if (run.workers.empty()) return text;
  const WorkerSums sums = sums_of(run);
  for (const auto& [node, sum] : sums.nodes) text += phase_lines(run.name, to_string(node), sum.totals);
  return text + phase_lines(run.name, "all", sums.all.totals);
}

std::string csv_of_several(std::span<const FinishedRun> runs) {
  std::vector<std::string> header = {"run",
                                     "status",
                                     "simulated",
                                     "policy",
                                     "nodes",
                                     "threads_per_node",
                                     "workers_reported",
                                     "iterations",
                                     "version",
                                     "threshold",
                                     "wall_seconds",
                                     "barrier_seconds",
                                     "network_seconds",
                                     "compute_seconds",
                                     "test_accuracy",
                                     "test_loss"};
  for (const char* phase : kPhaseNames) header.push_back(std::string(phase) + "_seconds");
  for (const char* column : {"unaccounted_seconds", "rounds", "bytes_pushed", "bytes_pulled", "bytes_shared",
                             "bytes_reduced", "bubble_share"}) {
    header.emplace_back(column);
  }
  std::string text = csv_line(header);
  for (const FinishedRun& run : runs) {
    const RunSummary& s = run.summary;
    const Times times = times_of(run);
    const std::optional<std::int64_t> iterations = iterations_of(run);
    std::vector<std::string> cells = {run.name,
                                      s.status,
                                      !run.finished      ? ""
                                      : s.simulated_seed ? "true"
                                                         : "false",
                                      s.policy,
                                      run.has_config ? std::to_string(s.nodes) : "",
                                      run.has_config ? std::to_string(s.threads_per_node) : "",
                                      run.has_workers ? std::to_string(run.workers.size()) : "",
                                      iterations ? std::to_string(*iterations) : "",
                                      run.has_progress ? to_string(s.final_version) : "",
                                      run.has_threshold ? to_string(s.final_threshold) : "",
                                      optional_text(times.total),
                                      optional_text(times.barrier),
                                      optional_text(times.network),
                                      optional_text(times.compute),
                                      optional_text(s.test_accuracy),
                                      optional_text(s.test_loss)};
    for (const PhaseSum& phase : s.phases)
      cells.push_back(optional_text(per_worker(run, phase.total_seconds)));
    cells.push_back(optional_text(per_worker(run, s.unaccounted_seconds)));
    const auto count_cell = [&](const char* key, std::int64_t count) {
      return run.finished && !run.lacks(key) ? std::to_string(count) : "";
    };
    cells.push_back(s.rounds ? std::to_string(*s.rounds) : "");
    cells.push_back(count_cell("bytes_pushed", s.bytes_pushed));
    cells.push_back(count_cell("bytes_pulled", s.bytes_pulled));
    cells.push_back(count_cell("bytes_shared", s.bytes_shared));
    cells.push_back(s.bytes_reduced ? std::to_string(*s.bytes_reduced) : "");
    cells.push_back(s.pipeline ? csv::text_of(s.pipeline->bubble_share) : "");
    text += csv_line(cells);
  }
  return text;
}

// ---- JSON

ReportJson optional_number(const std::optional<double>& number) {
  return number && std::isfinite(*number) ? ReportJson(*number) : ReportJson(nullptr);
}

// null where nothing says it.
template <typename Value>
ReportJson if_known(bool known, const Value& value) {
  return known ? ReportJson(value) : ReportJson(nullptr);
}

ReportJson sum_json(const WorkerSum& sum) {
  ReportJson json{{"workers", sum.workers}, {"wall_seconds", ms_of(sum.totals.wall_ns) / 1e3}};
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    const PhaseStat& stat = sum.totals.phases[i];
    const bool counted = is_counted(stat);
    json["phases"][kPhaseNames[i]] = {{"count", if_known(counted, stat.count)},
                                      {"total_seconds", ms_of(stat.total_ns) / 1e3},
                                      {"mean_ms", if_known(counted, mean_ms_of(stat))},
                                      {"p50_ms", if_known(counted, ms_of(quantile_ns(stat, 0.5)))},
                                      {"p95_ms", if_known(counted, ms_of(quantile_ns(stat, 0.95)))},
                                      {"share", share_of(stat.total_ns, sum.totals.wall_ns)},
                                      {"hidden_seconds", if_known(counted, ms_of(stat.hidden_ns) / 1e3)}};
  }
  json["unaccounted_seconds"] = ms_of(unaccounted_ns(sum.totals)) / 1e3;
  return json;
}

ReportJson seconds_json(const FinishedRun& run) {
  const Times times = times_of(run);
  ReportJson json{{"barrier", optional_number(times.barrier)},
                  {"network", optional_number(times.network)},
                  {"compute", optional_number(times.compute)},
                  {"total", optional_number(times.total)}};
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    json["phases"][kPhaseNames[i]] = optional_number(per_worker(run, run.summary.phases[i].total_seconds));
  }
  json["phases"]["unaccounted"] = optional_number(per_worker(run, run.summary.unaccounted_seconds));
  return json;
}

// As the file has it: nothing is made up for a key that it does not have.
ReportJson summary_json(const FinishedRun& run) {
  if (!run.finished) return nullptr;
  ReportJson json = ReportJson::parse(to_json(run.summary));
  for (const std::string& key : run.lacking) json.erase(key);
  return json;
}

std::vector<std::string> differing_keys_of(const FinishedRun& run) {
  std::vector<std::string> keys;
  for (const Difference& difference : run.differs) keys.push_back(difference.key);
  return keys;
}

ReportJson run_json(const FinishedRun& run) {
  const RunSummary& s = run.summary;
  const WorkerSums sums = sums_of(run);
  ReportJson json{{"run", run.name},
                  {"finished", run.finished},
                  {"comparable", is_comparable(run)},
                  {"differs_in", differing_keys_of(run)},
                  {"caveats", caveats_of(run)},
                  {"missing", run.missing},
                  {"summary", summary_json(run)},
                  {"status", s.status},
                  {"policy", if_known(!s.policy.empty(), s.policy)},
                  {"version", if_known(run.has_progress, s.final_version.value)},
                  {"wall_seconds", optional_number(times_of(run).total)},
                  {"test_accuracy", optional_number(s.test_accuracy)},
                  {"workers_reported", if_known(run.has_workers, run.workers.size())},
                  {"seconds_of_a_worker", seconds_json(run)}};
  json["nodes"] = ReportJson::array();
  for (const auto& [node, sum] : sums.nodes) {
    ReportJson of_node{{"node", node.value}};
    of_node.update(sum_json(sum));
    json["nodes"].push_back(std::move(of_node));
  }
  json["all"] = run.has_workers ? sum_json(sums.all) : ReportJson(nullptr);
  return json;
}

}  // namespace

std::string report_csv(std::span<const FinishedRun> runs) {
  return runs.size() == 1 ? csv_of_one(runs.front()) : csv_of_several(runs);
}

std::string report_json(std::span<const FinishedRun> runs) {
  ReportJson json{{"runs", ReportJson::array()}};
  for (const FinishedRun& run : runs) json["runs"].push_back(run_json(run));
  // Bytes that are not UTF-8 (a folder's name) are replaced rather than refused.
  return json.dump(2, ' ', false, ReportJson::error_handler_t::replace) + "\n";
}

}  // namespace paceline
