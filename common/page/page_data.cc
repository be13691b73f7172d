// The one place that knows the keys of the page's data; web/src/ reads them.
#include "common/page/page_data.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "common/config/engine_config.h"
#include "common/config/load.h"
#include "common/files/atomic_file.h"
#include "common/files/shallow_json.h"
#include "common/page/page_pipeline.h"
#include "common/page/page_trace.h"
#include "common/report/comparable.h"
#include "common/report/curve.h"
#include "common/report/local_rounds.h"
#include "common/report/phases_csv.h"
#include "common/report/progress.h"
#include "common/report/read_run.h"
#include "common/report/run_summary.h"
#include "common/report/staleness.h"
#include "common/sync/policy.h"
#include "common/timing/histogram.h"
#include "common/trace/merge.h"

namespace paceline {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kPointsMax = 20'000;  // of all curves on the page
constexpr std::size_t kWorkersMax = 1'000;  // of all runs on the page
constexpr std::size_t kSpansMax = 12'000;   // of all runs on the page
constexpr std::size_t kCellsMax = 40'000;   // of all heat maps
constexpr std::size_t kCurves = 6;          // of a run
constexpr std::size_t kSummaryBytesMax = std::size_t{1} << 20;
constexpr std::size_t kConfigBytesMax = std::size_t{1} << 18;
constexpr std::int64_t kExactInJavaScript = std::int64_t{1} << 53;  // every integer up to it is a double

// One run as it becomes JSON.
class RunReader {
 public:
  RunReader(const std::string& folder, std::size_t runs, const std::optional<ClockRange>& clocks, PageOf what)
      : folder_(folder),
        what_(what),
        spans_{kSpansMax / runs, clocks},
        cells_max_(kCellsMax / runs),
        points_max_(std::max<std::size_t>(kPointsMax / kCurves / runs, 4)),
        workers_max_(std::max<std::size_t>(kWorkersMax / runs, 1)) {}

  Json read() {
    Json run{{"name", folder_}};
    add(run, "summary", summary());
    if (rounds_) run["rounds"] = *rounds_;
    if (samples_) run["samples"] = *samples_;
    add(run, "phases", phases());
    add_config(run);
    add(run, "curve", curve());
    add(run, "staleness", staleness());
    const bool goes_on = what_ == PageOf::kLiveRun && !run.contains("summary");
    if (!goes_on) add_trace(run);
    if (!goes_on) add_known(run);
    add_progress(run);
    run["missing"] = missing_;
    return run;
  }

  const std::vector<std::string>& missing() const { return missing_; }

 private:
  // What could not be read is named instead.
  void add(Json& run, const char* key, Result<Json> part) {
    if (part.is_ok()) {
      run[key] = std::move(part).value();
    } else {
      miss(part.status());
    }
  }

  // The file's name says enough after the run's.
  void miss(const Status& status) {
    std::string message = status.message();
    const std::string prefix = (std::filesystem::path(folder_) / "").string();
    for (std::size_t at = 0; (at = message.find(prefix)) != std::string::npos;)
      message.erase(at, prefix.size());
    missing_.push_back(std::move(message));
  }

  Result<Json> summary();
  Result<Json> phases();
  Result<Json> curve();
  Result<Json> staleness() const;
  void add_progress(Json& run);
  void add_trace(Json& run);
  void add_config(Json& run);
  void add_known(Json& run);

  std::string folder_;
  PageOf what_;
  SpanLimits spans_;
  std::size_t cells_max_;
  std::size_t points_max_;
  std::size_t workers_max_;
  std::optional<std::uint32_t> threads_per_node_;  // as the summary says, or config.yaml
  std::size_t stages_ = 1;                         // of a pipeline, likewise
  std::optional<Threshold> first_threshold_;       // where config.yaml says the policy
  std::optional<Json> rounds_;                     // of the summary
  std::optional<Json> samples_;
  std::vector<std::string> missing_;
};

std::optional<Json> rounds_json(const RunSummary& summary) {
  const std::optional<LocalRounds> of = local_rounds(summary);
  if (!of) return std::nullopt;
  return Json{{"mini_batches", of->mini_batches},
              {"differ", of->differ},
              {"computed", of->computed ? Json(*of->computed) : Json(nullptr)}};
}

std::optional<Json> samples_json(const RunSummary& summary, std::size_t most) {
  const std::vector<NodeSamples> nodes = samples_of_nodes(summary);
  if (nodes.empty()) return std::nullopt;
  Json shown = Json::array();
  for (const NodeSamples& of : nodes) {
    if (shown.size() < most) shown.push_back({of.node, of.last, of.in_run});
  }
  return Json{{"of", nodes.size()}, {"nodes", std::move(shown)}};
}

// A script would round larger ones; a seed may be as large.
void spell_large_integers(Json& json) {
  for (auto& [key, value] : json.items()) {
    const bool large = (value.is_number_unsigned() &&
                        value.get<std::uint64_t>() > static_cast<std::uint64_t>(kExactInJavaScript)) ||
                       (value.is_number_integer() && value.get<std::int64_t>() < -kExactInJavaScript);
    if (large) value = value.dump();
    if (value.is_structured()) spell_large_integers(value);
  }
}

// As the file has it, whatever version wrote it; a key that this version misses is named, the others are
// shown.
Result<Json> RunReader::summary() {
  const std::filesystem::path path = std::filesystem::path(folder_) / "summary.json";
  Result<std::string> text = read_file(path, kSummaryBytesMax);
  if (text.status().code() == StatusCode::kNotFound) {
    return not_found("no summary.json: the run is unfinished, or it was killed");
  }
  PACELINE_RETURN_IF_ERROR(text.status());
  Json json = parse_shallow<Json>(*text, /*throws=*/false);
  if (!json.is_object()) return data_loss("summary.json: no JSON object, nothing of it is shown");
  if (Result<SummaryThere> there = read_summary_there(folder_); there.is_ok()) {
    if (!there->lacking.empty()) {
      std::string keys;
      for (const std::string& key : there->lacking) keys += (keys.empty() ? "" : ", ") + key;
      miss(data_loss("summary.json is of another version: it lacks " + keys));
    }
    const std::uint32_t threads = there->summary.threads_per_node;
    if (threads > 0) threads_per_node_ = threads;
    if (there->summary.pipeline) stages_ = static_cast<std::size_t>(there->summary.pipeline->stages);
    rounds_ = rounds_json(there->summary);
    samples_ = samples_json(there->summary, workers_max_);
  } else {
    miss(there.status());
  }
  spell_large_integers(json);
  return json;
}

double seconds_from(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }
double ms_from(std::int64_t ns) { return static_cast<double>(ns) / 1e6; }

// Of a worker, or the sums of a node's.
void add_totals(Json& json, const PhaseTotals& totals) {
  json["wall"] = seconds_from(totals.wall_ns);
  json["unaccounted"] = seconds_from(unaccounted_ns(totals));
  for (const PhaseStat& stat : totals.phases) {
    const auto if_counted = [&](auto value) { return is_counted(stat) ? Json(value) : Json(nullptr); };
    json["phases"].push_back({{"seconds", seconds_from(stat.total_ns)},
                              {"count", if_counted(stat.count)},
                              {"hidden", if_counted(seconds_from(stat.hidden_ns))},
                              {"p50_ms", if_counted(ms_from(quantile_ns(stat, 0.5)))},
                              {"p95_ms", if_counted(ms_from(quantile_ns(stat, 0.95)))}});
  }
}

Result<Json> RunReader::phases() {
  PACELINE_ASSIGN_OR_RETURN(const PhasesThere there, read_phases_there(folder_));
  for (const std::string& lacking : there.lacking) miss(data_loss(lacking));
  const std::vector<WorkerPhases>& read = there.workers;
  std::map<NodeId, std::pair<int, PhaseTotals>> sums;
  Json workers = Json::array();
  for (const auto& [worker, totals] : read) {
    auto& [count, sum] = sums[worker.node];
    ++count;
    merge(sum, totals);
    if (workers.size() == workers_max_) continue;
    workers.push_back({{"worker", to_string(worker)}});
    add_totals(workers.back(), totals);
  }
  Json nodes = Json::array();
  for (const auto& [node, of] : sums) {
    if (nodes.size() == workers_max_) break;
    nodes.push_back({{"node", node.value}, {"workers", of.first}});
    add_totals(nodes.back(), of.second);
  }
  return Json{{"of", read.size()},
              {"so_far", there.so_far},
              {"of_nodes", sums.size()},
              {"nodes", std::move(nodes)},
              {"workers", std::move(workers)}};
}

// {"of": how many there are, "points": [[seconds, version, iterations, value], …]}; what is not finite, or
// not known, is null.
Json curve_json(const std::vector<CurvePoint>& points, std::size_t most) {
  Json shown = Json::array();
  for (const CurvePoint& point : thinned(points, most)) {
    shown.push_back({point.seconds, point.version, point.iterations ? Json(*point.iterations) : Json(),
                     std::isfinite(point.value) ? Json(point.value) : Json()});
  }
  return {{"of", points.size()}, {"points", std::move(shown)}};
}

double number_of(Threshold threshold) {
  return threshold.is_infinite() ? HUGE_VAL : static_cast<double>(threshold.value());
}

Result<Json> RunReader::curve() {
  PACELINE_ASSIGN_OR_RETURN(CurveSoFar read, read_curve_so_far(folder_));
  if (read.last_line_cut) miss(data_loss("curve.csv: the last line is cut, and left out"));
  for (const std::string& column : read.lacking) {
    miss(data_loss("curve.csv is of an older version: no column " + column));
  }
  std::vector<CurveRow>& rows = read.rows;
  // An evaluation's row comes when it is done, and says when its version was reached.
  std::stable_sort(rows.begin(), rows.end(),
                   [](const CurveRow& a, const CurveRow& b) { return a.seconds < b.seconds; });
  Json json = Json::object();
  const auto put = [&](const char* key, const std::function<std::optional<double>(const CurveRow&)>& value) {
    std::vector<CurvePoint> points;
    for (const CurveRow& row : rows) {
      if (const auto number = value(row))
        points.push_back({row.seconds, row.version.value, *number, row.iterations});
    }
    json[key] = curve_json(points, points_max_);
  };
  put("test_accuracy", [](const CurveRow& row) { return row.test_accuracy; });
  put("test_loss", [](const CurveRow& row) { return row.test_loss; });
  // Where there are windows, theirs: means since the evaluation before are of other lengths.
  const bool windows = std::any_of(rows.begin(), rows.end(), [](const CurveRow& row) {
    return !row.test_accuracy && (row.train_accuracy || row.train_loss);
  });
  const auto trained = [windows](const CurveRow& row, const std::optional<double>& value) {
    return windows && row.test_accuracy ? std::nullopt : value;
  };
  put("train_accuracy", [&](const CurveRow& row) { return trained(row, row.train_accuracy); });
  put("train_loss", [&](const CurveRow& row) { return trained(row, row.train_loss); });
  put("lpr", [](const CurveRow& row) { return row.lpr; });
  put("learning_rate", [](const CurveRow& row) { return row.learning_rate; });
  // Only where it changed, and to the end: between, a line stays where it is. A row says what is in force
  // from it on; before the first it is what the policy begins with.
  if (first_threshold_ && !rows.empty() && rows.front().seconds > 0) {
    CurveRow begin;
    begin.threshold = *first_threshold_;
    begin.iterations = 0;
    rows.insert(rows.begin(), begin);
  }
  std::optional<double> before;
  const CurveRow* const last = rows.empty() ? nullptr : &rows.back();
  put("threshold", [&](const CurveRow& row) -> std::optional<double> {
    const double now = number_of(row.threshold);
    const bool same = before && *before == now && &row != last;
    before = now;
    return same ? std::nullopt : std::optional<double>(now);
  });
  return json;
}

Json histogram_json(const StalenessCounts& counts) {
  Json json = Json::array();
  for (const auto& [bucket, count] : counts.histogram) json.push_back({histogram_middle_ns(bucket), count});
  return json;
}

Result<Json> RunReader::staleness() const {
  PACELINE_ASSIGN_OR_RETURN(const std::vector<WorkerStaleness> workers, read_staleness(folder_));
  StalenessCounts clocks, gradients;
  for (const WorkerStaleness& worker : workers) {
    merge(clocks, worker.clocks);
    merge(gradients, worker.gradients);
  }
  return Json{{"clocks", histogram_json(clocks)}, {"gradients", histogram_json(gradients)}};
}

// But for those that a recorded one does not say.
Json settings_json(const RecordedConfig& recorded) {
  Json json = Json::array();
  for (const auto& [key, value] : effective_values(recorded.config)) {
    if (recorded.has_key(key)) json.push_back({key, value});
  }
  return json;
}

// Only of a run that was traced, be it what its parts come to; of any other nothing is missing.
void RunReader::add_trace(Json& run) {
  const Result<trace::Trace> recorded = trace::read_run(folder_);
  if (recorded.status().code() == StatusCode::kNotFound) return;
  if (!recorded.is_ok()) return miss(recorded.status());
  PageTraceLimits limits;
  limits.spans = spans_;
  limits.workers = std::clamp<std::size_t>(cells_max_ / limits.stretches, 1, limits.workers);
  run["trace"] = page_trace(*recorded, limits);
  if (stages_ == 1) return;
  if (Json step = page_pipeline(*recorded, stages_, spans_.most); !step.is_null())
    run["trace"]["pipeline"] = std::move(step);
}

// What had been moved, and where each worker stood, at some moments of the run. An older version's has none.
void RunReader::add_progress(Json& run) {
  const Result<std::vector<ProgressRow>> read = read_progress(folder_);
  if (read.status().code() == StatusCode::kNotFound) return;
  if (!read.is_ok()) return miss(read.status());
  if (read->size() < 2) return;
  const std::size_t workers = std::min(read->front().gaps.size(), cells_max_ / PageTraceLimits().stretches);
  const std::size_t every = (read->size() + PageTraceLimits().stretches - 1) / PageTraceLimits().stretches;
  Json json{{"workers", Json::array()}};
  for (std::uint32_t r = 0; r < workers; ++r) {
    json["workers"].push_back(
        threads_per_node_ ? to_string(WorkerId(NodeId(r / *threads_per_node_), r % *threads_per_node_))
                          : "rank " + std::to_string(r));
  }
  for (std::size_t i = 0; i < read->size(); i += every) {
    const ProgressRow& row = (*read)[i];
    Json gaps = Json::array();
    for (std::size_t r = 0; r < workers; ++r) gaps.push_back(row.gaps[r] ? Json(*row.gaps[r]) : Json());
    const Traffic& moved = row.moved;  // each below 2^63, their sum may not be
    json["rows"].push_back({row.seconds,
                            static_cast<double>(moved.pushed) + static_cast<double>(moved.pulled) +
                                static_cast<double>(moved.shared) + static_cast<double>(moved.reduced),
                            std::move(gaps)});
  }
  run["progress"] = std::move(json);
}

// Key by key, or, where this version cannot read it, as it is. What a run of another version has besides is
// named.
void RunReader::add_config(Json& run) {
  const std::filesystem::path path = std::filesystem::path(folder_) / "config.yaml";
  const Result<std::string> text = read_file(path, kConfigBytesMax);
  if (text.status().code() == StatusCode::kNotFound) return miss(not_found("no config.yaml"));
  if (!text.is_ok()) return miss(text.status());
  const Result<RecordedConfig> recorded = load_recorded_config(path.string());
  if (recorded.is_ok()) {
    run["settings"] = settings_json(*recorded);
    if (!threads_per_node_ && recorded->has_key("cluster.threads_per_node")) {
      threads_per_node_ = recorded->config.cluster.threads_per_node;
    }
    if (!run.contains("summary") && recorded->has_key("pipeline.stages"))
      stages_ = recorded->config.pipeline.stages;
    if (recorded->has_key("sync.policy") && recorded->has_key("sync.threshold")) {
      first_threshold_ = sync::make_policy(engine_config(recorded->config).policy)->threshold();
    }
    for (const std::string& fault : faults_of(*recorded)) miss(data_loss(fault));
  } else {
    run["config"] = *text;
    miss(recorded.status());
  }
}

// What is known of a run without a summary: a card has it instead.
void RunReader::add_known(Json& run) {
  if (run.contains("summary")) return;
  const Result<FinishedRun> read = read_run(folder_);
  if (!read.is_ok()) return;
  const RunSummary& s = read->summary;
  Json& known = run["known"] = Json{{"status", s.status}};
  if (read->has_config) {
    known["policy"] = s.policy;
    known["nodes"] = s.nodes;
    known["threads_per_node"] = s.threads_per_node;
    known["workers"] = s.workers();
  }
  if (read->has_progress) {
    known["seconds"] = s.wall_seconds;
    known["version"] = s.final_version.value;
  }
  if (read->has_threshold) {
    known["threshold"] = s.final_threshold.is_infinite() ? Json("inf") : Json(s.final_threshold.value());
  }
  if (s.test_accuracy) known["test_accuracy"] = *s.test_accuracy;
}

// Of several runs, what tells the work of each from that of the first: their numbers stand beside each other.
void add_differences(Json& runs, std::span<const std::string> folders) {
  if (folders.size() < 2) return;
  std::vector<FinishedRun> read;
  for (const std::string& folder : folders) {
    Result<FinishedRun> run = read_run(folder);
    if (!run.is_ok()) return;
    read.push_back(std::move(run).value());
  }
  mark_differences(read);
  for (std::size_t i = 0; i < read.size(); ++i) {
    make_printable(read[i]);
    if (!read[i].differs.empty()) runs[i]["differs"] = differences_of(read[i]);
  }
}

// JSON has these only inside its texts, where they may as well be spelled by number.
std::string harmless_in_html(const std::string& json) {
  std::string text;
  text.reserve(json.size());
  for (const char c : json) {
    switch (c) {
      case '<':
        text += "\\u003c";
        break;
      case '>':
        text += "\\u003e";
        break;
      case '&':
        text += "\\u0026";
        break;
      default:
        text += c;
    }
  }
  return text;
}

}  // namespace

std::vector<CurvePoint> thinned(std::span<const CurvePoint> points, std::size_t most) {
  PACELINE_ASSERT(most >= 4, "the first, the last and one stretch: got " + std::to_string(most));
  if (points.size() <= most) return {points.begin(), points.end()};
  const std::span<const CurvePoint> inner = points.subspan(1, points.size() - 2);
  const std::size_t stretches = most / 2 - 1;
  const auto by_value = [](const CurvePoint& a, const CurvePoint& b) { return a.value < b.value; };
  std::vector<CurvePoint> kept{points.front()};
  for (std::size_t i = 0; i < stretches; ++i) {
    const std::size_t begin = i * inner.size() / stretches;
    const std::size_t end = (i + 1) * inner.size() / stretches;
    const auto [least, greatest] = std::minmax_element(inner.begin() + begin, inner.begin() + end, by_value);
    kept.push_back(*std::min(least, greatest));
    if (least != greatest) kept.push_back(*std::max(least, greatest));
  }
  kept.push_back(points.back());
  return kept;
}

Result<PageData> page_data(std::span<const std::string> folders, const std::optional<ClockRange>& clocks,
                           PageOf what) {
  PACELINE_ASSERT(!folders.empty(), "a page of at least one run");
  PageData data;
  Json runs = Json::array();
  for (const std::string& folder : folders) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(folder, ignored)) {
      return not_found(folder + ": no such run directory; give the run.out of a run");
    }
    RunReader reader(folder, folders.size(), clocks, what);
    runs.push_back(reader.read());
    for (const std::string& missing : reader.missing()) data.missing.push_back(folder + ": " + missing);
  }
  add_differences(runs, folders);
  const Json page{
      {"phases", kPhaseNames}, {"defaults", settings_json({RunConfig{}})}, {"runs", std::move(runs)}};
  data.json = harmless_in_html(page.dump(-1, ' ', true, Json::error_handler_t::replace));
  return data;
}

}  // namespace paceline
