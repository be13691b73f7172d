// Benchmarks that have a target: the table on the console, and below it each that missed its own.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace paceline::bench {

using Misses = std::function<bool(const benchmark::BenchmarkReporter::Run& run)>;

class JudgingReporter : public benchmark::ConsoleReporter {
 public:
  explicit JudgingReporter(Misses misses) : misses_(std::move(misses)) {}

  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs) {
      if (misses_(run)) missed_.push_back(run.benchmark_name());
    }
  }
  const std::vector<std::string>& missed() const { return missed_; }

 private:
  const Misses misses_;
  std::vector<std::string> missed_;
};

// Runs what `register_all` registers, as the command line says. The program's exit status: 0; 1 with a line
// for each that `misses`, which says `complaint` of it; 2 wrong usage.
inline int run_judged(int argc, char** argv, const std::function<void()>& register_all, Misses misses,
                      const std::string& complaint) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  register_all();
  JudgingReporter reporter(std::move(misses));
  benchmark::RunSpecifiedBenchmarks(&reporter);
  for (const std::string& name : reporter.missed()) std::printf("%s: %s\n", name.c_str(), complaint.c_str());
  return reporter.missed().empty() ? 0 : 1;
}

}  // namespace paceline::bench
