// A run's trace whose waits are worked out by hand, and what `paceline explain` says of a run.
#pragma once

#include <catch2/catch.hpp>
#include <sstream>
#include <string>

#include "common/trace/trace_file.h"
#include "tests/unit/temp_folder.h"
#include "tools/explain.h"

namespace paceline {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;
using std::chrono::nanoseconds;
using trace::Decision;
using trace::DecisionKind;

const WorkerId kFast(0, 0), kSlow(1, 0);

inline Ticks at(std::int64_t ms) { return Ticks(ms * 1'000'000); }
inline PhaseSpan span(std::int64_t from, std::int64_t to, std::int64_t clock, Phase phase) {
  return {at(from), at(to) - at(from), Clock(clock), phase};
}

// 0.0 computes clock 1 until 100 ms; its exchange takes 100 ms, as in explain_waits.h: reported at 120, held
// from 125 to 185 for 1.0, which computes until 180. Then it waits 10 ms for its mini-batch.
inline trace::Trace held_run() {
  trace::Trace t;
  trace::Process authority, nodes[2];
  authority.server = kAuthority;
  nodes[1].node = NodeId(1);
  t.processes = {authority, nodes[0], nodes[1]};
  t.first_grant = at(0);
  t.workers = {{kFast,
                {span(0, 100, 1, Phase::kComputeGrads), span(100, 140, 1, Phase::kPsApplyGrads),
                 span(140, 200, 2, Phase::kBarrier), span(200, 210, 2, Phase::kBatch),
                 span(210, 300, 2, Phase::kComputeGrads)},
                0},
               {kSlow, {span(0, 180, 0, Phase::kComputeGrads), span(180, 190, 0, Phase::kPsApplyGrads)}, 0}};
  const auto decision = [&](std::int64_t ms, DecisionKind kind, WorkerId worker,
                            std::int64_t clock) -> Decision& {
    t.decisions.push_back({.at = at(ms), .kind = kind, .worker = worker, .clock = Clock(clock)});
    return t.decisions.back();
  };
  decision(120, DecisionKind::kReported, kFast, 1);
  Decision& hold = decision(125, DecisionKind::kHeld, kFast, 2);
  hold.min_clock = Clock(0);
  hold.threshold = Threshold(1);
  hold.lpr = 1.25;
  hold.by = kSlow;
  decision(184, DecisionKind::kReported, kSlow, 0);
  Decision& grant = decision(185, DecisionKind::kGranted, kFast, 2);
  grant.threshold = Threshold(1);
  grant.lpr = 1.25;
  grant.held = 60ms;
  grant.release = trace::Release::kWorker;
  grant.by = kSlow;
  return t;
}

// Blanks of a line as one, none at its end.
inline std::string squeezed(const std::string& text) {
  std::string all;
  std::istringstream lines(text);
  for (std::string line, word; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string one;
    while (words >> word) one += (one.empty() ? "" : " ") + word;
    all += one + "\n";
  }
  return all;
}

class ExplainedRun {
 public:
  explicit ExplainedRun(const trace::Trace& run = held_run()) {
    REQUIRE(write_trace(folder_ / "trace.json", run).is_ok());
  }
  int operator()(ExplainOptions options) {
    out_.str("");
    err_.str("");
    options.run = folder_.path().string();
    return explain(options, out_, err_);
  }
  std::string out() const { return out_.str(); }
  std::string refusal() const {
    CHECK(out_.str().empty());
    return err_.str();
  }
  const testing::TempFolder& folder() const { return folder_; }

 private:
  testing::TempFolder folder_;
  std::ostringstream out_, err_;
};

}  // namespace
}  // namespace paceline
