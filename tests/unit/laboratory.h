// Runs of a cluster that never was, written as the daemons and the simulator write them, and compared.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "common/config/load.h"
#include "common/files/atomic_file.h"
#include "common/report/curve.h"
#include "common/report/run_summary.h"
#include "common/report/staleness.h"
#include "tests/unit/temp_folder.h"
#include "tools/report.h"

namespace paceline {
namespace {

using Catch::Contains;
using testing::TempFolder;

struct Shown {
  int status;
  std::string out, err;
};

// Writes runs into a folder and reports on all of them, in the order in which they were written.
class Laboratory {
 public:
  using Change = std::function<void(RunSummary&)>;

  // A run of 100 iterations on two nodes that took `seconds`, with `overrides` to its configuration.
  Laboratory& run(std::uint64_t seed, double seconds, std::vector<std::string> overrides,
                  const Change& change = {}, const std::vector<CurveRow>& curve = {}) {
    const std::filesystem::path path = folder_ / ("run" + std::to_string(runs_.size()));
    runs_.push_back(path.string());
    std::filesystem::create_directories(path);
    overrides.insert(overrides.end(), {"run.seed=" + std::to_string(seed), "run.out=" + path.string(),
                                       "cluster.nodes=2", "train.total_iterations=100"});
    const Result<RunConfig> config = parse_config("run: {name: lab}\n", "lab", overrides, LoadFor::kReading);
    REQUIRE(config.is_ok());
    REQUIRE(write_file_atomically(path / "config.yaml", to_yaml(*config)));
    RunSummary summary;
    summary.policy = "any";
    summary.nodes = 2;
    summary.threads_per_node = 1;
    summary.iterations = 100;
    summary.wall_seconds = seconds;
    summary[Phase::kBatch] = {1.0, 100};
    summary[Phase::kComputeGrads] = {9.0, 100};
    summary[Phase::kApplyGrads] = {2.0, 100};
    summary[Phase::kBarrier] = {4.0, 100};
    summary[Phase::kPsParam] = {3.0, 100};
    if (change) change(summary);
    REQUIRE(write_curve(path, curve));
    WorkerStaleness worker{WorkerId(0, 0), {}, {}};
    worker.clocks.add(0, 75);
    worker.clocks.add(2, 25);
    worker.gradients.add(3072, 100);  // of a bucket whose middle is 3104
    const std::vector<WorkerStaleness> workers{worker};
    REQUIRE(write_staleness(path, workers));
    set_staleness(summary, workers);
    REQUIRE(write_summary(path, summary));
    return *this;
  }

  // The last one's configuration, past what all have in common.
  void change(const std::string& value) const {
    const std::string file = runs_.back() + "/config.yaml";
    const Result<RunConfig> config = load_config(file, std::vector<std::string>{value, "data.path=/data"});
    REQUIRE(config.is_ok());
    REQUIRE(write_file_atomically(file, to_yaml(*config)));
  }

  Shown compare(ReportOptions options = {}) const {
    options.runs = runs_;
    options.compare = true;
    std::ostringstream out, err;
    const int status = report(options, out, err);
    return {status, out.str(), err.str()};
  }
  nlohmann::json json(ReportOptions options = {}) const {
    options.json = true;
    const Shown shown = compare(options);
    REQUIRE(shown.status == 0);
    return nlohmann::json::parse(shown.out);
  }
  const std::string& path(std::size_t run) const { return runs_[run]; }

 private:
  TempFolder folder_;
  std::vector<std::string> runs_;
};

const std::vector<std::string> kBsp{"sync.policy=bsp"};
const std::vector<std::string> kSsp{"sync.policy=ssp", "sync.threshold=3"};

// `seeds` runs of each, SSP faster by about 10 s.
inline void add_pairs(Laboratory& lab, std::uint64_t seeds) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const double s = 100.0 + 7.0 * static_cast<double>(seed % 3);
    lab.run(seed, s, kBsp).run(seed, s - 10.0 - 0.1 * static_cast<double>(seed), kSsp);
  }
}

inline std::vector<CurveRow> curve_of(const std::vector<double>& accuracies, double late = 0.0) {
  std::vector<CurveRow> rows;
  for (const double accuracy : accuracies) {
    const auto place = static_cast<std::int64_t>(rows.size()) + 1;
    CurveRow row{late + 10.0 * static_cast<double>(place), Version(5 * place), Threshold(0)};
    row.test_accuracy = accuracy;
    rows.push_back(row);
  }
  return rows;
}

}  // namespace

}  // namespace paceline
