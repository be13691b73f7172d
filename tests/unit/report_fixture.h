// Runs made by hand and what `paceline report` says of them.
#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "common/report/finished_run.h"
#include "common/report/phases_csv.h"
#include "common/report/run_summary.h"
#include "common/timing/histogram.h"
#include "tools/report.h"

namespace paceline::testing {

inline constexpr std::int64_t kMs = 1'000'000;

inline PhaseStat occurred(std::int64_t count, std::int64_t each_ns) {
  return {count, count * each_ns, 0, {{histogram_bucket(each_ns), count}}};
}

// Two nodes of one thread: node 0 computes 10 x 30 ms and waits 10 x 10, node 1 computes 10 x 10 and waits 10
// x 30.
inline FinishedRun two_nodes(const std::string& name) {
  FinishedRun run;
  run.name = name;
  for (std::uint32_t node : {0u, 1u}) {
    PhaseTotals totals;
    totals[Phase::kComputeGrads] = occurred(10, node == 0 ? 30 * kMs : 10 * kMs);
    totals[Phase::kBarrier] = occurred(10, node == 0 ? 10 * kMs : 30 * kMs);
    totals.wall_ns = 500 * kMs;
    run.workers.push_back({WorkerId(node, 0), totals});
  }
  PhaseTotals all = run.workers[0].totals;
  merge(all, run.workers[1].totals);
  run.summary.policy = "ssp";
  run.summary.nodes = 2;
  run.summary.threads_per_node = 1;
  run.summary.iterations = 20;
  run.summary.wall_seconds = 0.5;
  run.summary.final_threshold = Threshold(3);
  run.summary.test_accuracy = 0.8;
  set_phases(run.summary, all);
  return run;
}

inline void write_run(const std::filesystem::path& folder, const FinishedRun& run) {
  std::filesystem::create_directories(folder);
  REQUIRE(write_summary(folder, run.summary));
  REQUIRE(write_phases(folder, run.workers));
}

struct Outcome {
  int status;
  std::string out, err;
};
inline Outcome run_report(const ReportOptions& options) {
  std::ostringstream out, err;
  const int status = report(options, out, err);
  return {status, out.str(), err.str()};
}
inline Outcome run_report(const std::vector<std::string>& runs) {
  return run_report(ReportOptions{.runs = runs});
}

}  // namespace paceline::testing
