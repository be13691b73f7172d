// What a run directory holds reaches a terminal as text: it moves no cursor, sets no title and fills no
// screen.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/text/printable.h"
#include "tests/unit/report_fixture.h"
#include "tests/unit/temp_folder.h"
#include "tools/explain.h"

using namespace paceline;
using Catch::Contains;
using testing::Outcome;
using testing::run_report;
using testing::TempFolder;
using testing::two_nodes;
using testing::write_run;

namespace {

constexpr const char* kHostile = "\033[2J\033]0;owned\a\xc2\x9b\x80";

void write(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

// 5 kB that no terminal should see, the same in each run of the test.
std::string noise() {
  std::string bytes;
  for (std::uint32_t x = 1; bytes.size() < 5'000; x = x * 1'664'525 + 1'013'904'223) {
    const char c = static_cast<char>(x >> 24);
    bytes += c == '\n' ? 'n' : c;
  }
  return bytes;
}

void check_is_tame(const std::string& text) {
  CHECK(printable_lines(text) == text);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(characters(line) < 600);
}

}  // namespace

TEST_CASE("what_the_files_of_a_run_begin_with_moves_no_cursor") {
  const TempFolder folder;
  const std::string begin = GENERATE(std::string(kHostile) + "seconds\n", noise() + "\n", noise());
  for (const char* file :
       {"curve.csv", "phases.csv", "phases_histogram.csv", "summary.json", "config.yaml"}) {
    write_run(folder / "run", two_nodes("run"));
    std::filesystem::remove(folder / "run/summary.json");  // so that all the others are read
    write(folder / "run" / file, begin);
    const std::string run = (folder / "run").string();
    for (const bool several : {false, true}) {
      const Outcome r = run_report(several ? std::vector{run, run} : std::vector{run});
      CHECK(r.status == 0);
      check_is_tame(r.out + r.err);
    }
    const Outcome csv = run_report({.runs = {run}, .format = ReportFormat::kCsv});
    check_is_tame(csv.err);
    std::filesystem::remove_all(folder / "run");
  }
}

TEST_CASE("nor_does_the_name_of_its_folder_or_a_reason") {
  const TempFolder folder;
  const std::string name = (folder / (std::string("a") + kHostile + "\nb")).string();
  FinishedRun run = two_nodes("a");
  run.summary.status = "failed";
  run.summary.reason = kHostile;
  write_run(name, run);
  for (const ReportFormat format : {ReportFormat::kTable, ReportFormat::kMarkdown}) {
    for (const auto& runs : {std::vector{name}, std::vector{name, name}}) {
      check_is_tame(run_report({.runs = runs, .format = format}).out);
    }
  }
  for (const bool compare : {true, false}) {
    const Outcome refused = run_report({.runs = {name + "/none"}, .compare = compare});
    CHECK(refused.status == 2);
    check_is_tame(refused.err);
    CHECK(std::count(refused.err.begin(), refused.err.end(), '\n') == 1);
  }
}

TEST_CASE("nor_does_a_damaged_trace") {
  const TempFolder folder;
  const std::string begin = GENERATE(std::string(kHostile) + "\n", noise() + "\n", noise(),
                                     "{\"traceEvents\": [\n{\"ph\": \"\\u001b[2J\"},\n");
  write(folder / "trace.json", begin);
  std::ostringstream out, err;
  CHECK(explain({.run = folder.path().string()}, out, err) == 2);
  check_is_tame(err.str());
  CHECK_THAT(err.str(), Contains("trace.json"));
}

TEST_CASE("what_is_quoted_of_a_file_has_a_bound_and_no_control_characters") {
  CHECK(quotable("node,thread") == "node,thread");
  CHECK(quotable(kHostile) == "?[2J?]0;owned???");
  CHECK(characters(quotable(noise())) == kQuotedMax);
  CHECK(characters(quotable(std::string(1'000, 'x'))) == kQuotedMax);
  CHECK(printable("\xc3\xa4 \xe2\x80\xa6 \xf0\x9f\x90\x8c") == "\xc3\xa4 \xe2\x80\xa6 \xf0\x9f\x90\x8c");
  CHECK(printable("\xc3") == "?");
  CHECK(printable("a\nb") == "a?b");
  CHECK(printable_lines("a\nb\r") == "a\nb?");
}
