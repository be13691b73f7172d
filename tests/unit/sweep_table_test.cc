// What a sweep says of its points: their numbers, the table, the blocks for plots; and how it knows what is
// finished.
#include <catch2/catch.hpp>
#include <cmath>
#include <sstream>

#include "common/config/load.h"
#include "common/files/atomic_file.h"
#include "simulate/run.h"
#include "sweep/directory.h"
#include "sweep/progress.h"
#include "sweep/table.h"
#include "tests/unit/simulate_fixture.h"
#include "tests/unit/temp_folder.h"
#include "worker/data/synthetic.h"

namespace paceline::sweep {
namespace {

using Catch::Contains;
using paceline::test::kPlainRun;
using paceline::testing::TempFolder;
namespace fs = std::filesystem;
using Strings = std::vector<std::string>;

const std::string kSweptRun = kPlainRun + "sync: {policy: ssp}\n";

// The plain run as a file, and sweeps over it.
class Swept {
 public:
  Swept() { REQUIRE(write_file_atomically(config(), kSweptRun).is_ok()); }

  Result<Points> read(const Strings& axes) const {
    Result<Grid> grid = Grid::read("", "", axes);
    if (!grid) return grid.status();
    return Points::read(config(), std::move(*grid), {});
  }
  Points points(const Strings& axes) const {
    Result<Points> points = read(axes);
    if (!points) FAIL(points.status().message());
    return std::move(*points);
  }
  std::string config() const { return (folder_ / "run.yaml").string(); }
  fs::path out() const { return folder_ / "sweep"; }

  // As `paceline simulate` on what begin() left.
  void simulate(const Points& points, const Directory& directory, std::size_t point) const {
    REQUIRE(directory.begin(points, point).is_ok());
    const fs::path run = directory.run(points, point);
    Result<RunConfig> config = load_config((run / "config.yaml").string(), {}, LoadFor::kReading);
    REQUIRE(config.is_ok());
    const Result<paceline::simulate::SimulatedRun> done = paceline::simulate::simulate(*config);
    REQUIRE(done.is_ok());
    REQUIRE(paceline::simulate::write_directory(run, *done).is_ok());
  }

 private:
  TempFolder folder_;
};

CurveRow row_at(double seconds, std::int64_t threshold, std::optional<double> train = {},
                std::optional<double> test = {}) {
  CurveRow row{seconds, Version(static_cast<std::int64_t>(seconds)), Threshold(threshold)};
  row.train_accuracy = train;
  row.test_accuracy = test;
  return row;
}

TEST_CASE("the_target_is_reached_when_three_successive_evaluations_have_it_in_the_mean") {
  // One lucky evaluation (0.9 at 20 s) is not it: (0.5 + 0.9 + 0.6) / 3 < 0.7; then (0.9 + 0.6 + 0.7) / 3.
  const std::vector<CurveRow> curve{row_at(10, 3, 0.5), row_at(20, 3, 0.9), row_at(30, 3, 0.6),
                                    row_at(40, 3, 0.7)};
  CHECK(seconds_to_target(curve, 0.7) == 40.0);
  CHECK(std::isnan(seconds_to_target(curve, 0.8)));
  CHECK(std::isnan(seconds_to_target(std::span(curve).first(2), 0.1)));
  // Where the model was tested, training accuracy is not asked.
  // An evaluation that is written twice is one.
  const std::vector<CurveRow> twice{row_at(10, 3, 0.7), row_at(20, 3, 0.7), row_at(20, 3, 0.7)};
  CHECK(std::isnan(seconds_to_target(twice, 0.7)));
  const std::vector<CurveRow> tested{row_at(10, 3, 0.9), row_at(20, 3, 0.9), row_at(30, 3, 0.9),
                                     row_at(30, 3, {}, 0.4)};
  CHECK(std::isnan(seconds_to_target(tested, 0.3)));
}

TEST_CASE("the_mean_threshold_is_over_time_not_over_rows") {
  // 3 for 10 s, 4 for 30 s, 5 for 60 s.
  const std::vector<CurveRow> curve{row_at(10, 4), row_at(40, 5)};
  CHECK(mean_threshold(Threshold(3), curve, 100.0) == Approx(4.5));
  CHECK(mean_threshold(Threshold(3), {}, 100.0) == 3.0);
  CHECK(std::isinf(mean_threshold(Threshold::infinite(), {}, 100.0)));
  CHECK(mean_threshold(Threshold(3), {}, 0.0) == 3.0);
}

TEST_CASE("every_point_is_looked_at_before_anything_runs") {
  struct Case {
    Strings axes;
    std::string line;
  };
  const Swept swept;
  for (const Case& bad : std::vector<Case>{
           {{"sync.treshold=1,2"}, "unknown key"},
           {{"sync.treshold=1,2"}, "did you mean sync.threshold?"},
           {{"sync=1,2"}, "sync: a section, not a key"},
           {{"sync.threshold=1,-1"},
            "point 2 of 2, threshold=-1: command line: sync.threshold: out of range"},
           {{"sync.policy=ssp,bsp", "sync.threshold=2"}, "point 2 of 2, policy=bsp: command line: "},
           {{"sync.policy=ssp,dtssp"},
            "point 2 of 2, policy=dtssp: sync.policy: dtssp follows a training metric"},
           {{"cluster.nodes=2,three"},
            "point 2 of 2, nodes=three: command line: cluster.nodes: wrong type"}}) {
    INFO(bad.line);
    const Result<Points> points = swept.read(bad.axes);
    REQUIRE_FALSE(points.is_ok());
    CHECK_THAT(points.status().message(), Contains(bad.line));
  }
  CHECK_THAT(Points::read("absent.yaml", *Grid::read("", "", Strings{"run.seed=1,2"}), {}).status().message(),
             Contains("absent.yaml"));
  const Result<Grid> drawn = Grid::read(
      "", "",
      Strings{"run.seed=1,2", "simulate.compute.distribution=emulated", "simulate.compute.mean=null"});
  CHECK_THAT(Points::read(swept.config(), *drawn, "absent").status().message(), Contains("absent/"));
}

TEST_CASE("a_point_is_finished_when_it_has_a_summary_and_the_grids_configuration") {
  const Swept swept;
  const Points points = swept.points({"sync.threshold=1,2"});
  const Result<Directory> directory = Directory::open(swept.out(), points);
  REQUIRE(directory.is_ok());
  CHECK_FALSE(directory->is_finished(points, 0));
  swept.simulate(points, *directory, 0);
  CHECK(directory->is_finished(points, 0));
  CHECK_FALSE(directory->is_finished(points, 1));
  // Half-way through another: the configuration is there, the summary is not, whatever stood there before.
  REQUIRE(directory->begin(points, 0).is_ok());
  CHECK_FALSE(directory->is_finished(points, 0));
  swept.simulate(points, *directory, 0);
  const fs::path config = directory->run(points, 0) / "config.yaml";
  REQUIRE(write_file_atomically(config, kPlainRun + "sync: {policy: ssp, threshold: 2}\n").is_ok());
  CHECK_FALSE(directory->is_finished(points, 0));
}

TEST_CASE("a_sweep_over_a_run_between_machines_needs_no_keys") {
  const Swept swept;
  std::string between = kSweptRun;
  between.replace(between.find("nodes: 2"), 8, "nodes: 2, endpoints: [\"tcp://alpha:5555\"]");
  REQUIRE(write_file_atomically(swept.config(), between).is_ok());
  const Points points = swept.points({"sync.threshold=1,2"});
  const Result<Directory> directory = Directory::open(swept.out(), points);
  REQUIRE(directory.is_ok());
  swept.simulate(points, *directory, 0);
  CHECK(directory->is_finished(points, 0));
  CHECK(read_row(directory->run(points, 0), {}, {}).is_ok());
}

TEST_CASE("a_directory_goes_on_with_the_same_sweep_only") {
  const Swept swept;
  const auto open = [&](const Strings& axes) {
    return Directory::open(swept.out(), swept.points(axes)).status();
  };
  REQUIRE(open({"sync.threshold=1,2"}).is_ok());
  CHECK(open({"sync.threshold=1,2"}).is_ok());
  CHECK_THAT(
      open({"sync.threshold=1,3"}).message(),
      Contains("another sweep: it had \"    - {sync.threshold: 2}\", got \"    - {sync.threshold: 3}\""));
  CHECK_FALSE(open({"sync.threshold=1,2", "run.seed=9"}).is_ok());
  // The same grid over another configuration.
  REQUIRE(write_file_atomically(swept.config(), kPlainRun + "sync: {policy: ssp, apply: eager}\n").is_ok());
  CHECK_THAT(open({"sync.threshold=1,2"}).message(), Contains("the configuration, the trace, the curve"));
}

TEST_CASE("a_directory_goes_on_with_the_same_curve_only") {
  const Swept swept;
  const fs::path curve = swept.out().parent_path() / "curve.csv";
  const auto open = [&] {
    return Directory::open(swept.out(),
                           swept.points({"sync.threshold=1,2", "simulate.metric.curve=" + curve.string()}))
        .status();
  };
  REQUIRE(write_file_atomically(curve, "samples,accuracy,loss\n0,0.1,2.3\n100,0.9,0.5\n").is_ok());
  REQUIRE(open().is_ok());
  CHECK(open().is_ok());
  REQUIRE(write_file_atomically(curve, "samples,accuracy,loss\n0,0.1,2.3\n100,0.2,0.5\n").is_ok());
  CHECK_THAT(open().message(), Contains("the curve of simulate.metric"));
}

TEST_CASE("in_training_mode_a_directory_goes_on_with_the_same_data_only") {
  const Swept swept;
  SyntheticOptions data;
  data.out = swept.out().parent_path() / "data";
  data.train_samples = 100;
  data.test_samples = 20;
  data.overwrite = Overwrite::kAllow;
  const auto open = [&] {
    return Directory::open(swept.out(), swept.points({"sync.threshold=1,2", "simulate.mode=training",
                                                      "data.path=" + data.out.string()}))
        .status();
  };
  REQUIRE(write_synthetic(data).is_ok());
  REQUIRE(open().is_ok());
  CHECK(open().is_ok());
  const auto test_set = [&] { return read_file(data.out / "test_batch.bin", 1 << 20); };
  const auto before = test_set();
  REQUIRE(before.is_ok());
  data.seed = 2;
  REQUIRE(write_synthetic(data).is_ok());
  CHECK_THAT(open().message(), Contains("the curve of simulate.metric or the data"));
  // Another test set alone is other data, too.
  data.seed = 1;
  REQUIRE(write_synthetic(data).is_ok());
  CHECK(open().is_ok());
  std::string other = *before;
  other.front() = static_cast<char>((other.front() + 1) % 10);  // a label
  REQUIRE(write_file_atomically(data.out / "test_batch.bin", other).is_ok());
  CHECK_FALSE(open().is_ok());
}

TEST_CASE("in_timing_mode_data_count_for_nothing") {
  const Swept swept;
  const auto open = [&] {
    return Directory::open(swept.out(), swept.points({"sync.threshold=1,2", "data.path=nowhere"})).status();
  };
  REQUIRE(open().is_ok());
  CHECK(open().is_ok());
}

TEST_CASE("a_configuration_under_two_names_is_refused_with_both") {
  const Swept swept;
  CHECK_THAT(swept.read({"sync.threshold=1,01"}).status().message(),
             Contains("point 2 of 2, threshold=01: the same configuration as point 1, threshold=1"));
  CHECK_FALSE(swept.read({"simulate.network.latency=1ms,1000us"}).is_ok());
  // Ten rounds of 64 samples, as 10.1 are.
  CHECK_THAT(swept.read({"data.train_samples=640", "train.total_epochs=1,1.01"}).status().message(),
             Contains("point 2 of 2, total_epochs=1.01: the same configuration as point 1, total_epochs=1"));
}

TEST_CASE("a_directory_that_is_no_sweeps_is_left_alone") {
  const Swept swept;
  fs::create_directories(swept.out());
  REQUIRE(write_file_atomically(swept.out() / "thesis.tex", "x").is_ok());
  const Points points = swept.points({"sync.threshold=1,2"});
  CHECK_THAT(Directory::open(swept.out(), points).status().message(),
             Contains("holds something that is no sweep (thesis.tex)"));
}

TEST_CASE("two_sweeps_do_not_share_a_directory_at_one_time") {
  const Swept swept;
  const Points points = swept.points({"sync.threshold=1,2"});
  const Result<Directory> first = Directory::open(swept.out(), points);
  REQUIRE(first.is_ok());
  CHECK_THAT(Directory::open(swept.out(), points).status().message(), Contains("another sweep is going on"));
}

TEST_CASE("a_row_has_the_numbers_of_its_run") {
  const Swept swept;
  const Points points = swept.points({"simulate.compute.slowdown=[1, 2]", "sync.policy=bsp"});
  const Result<Directory> directory = Directory::open(swept.out(), points);
  REQUIRE(directory.is_ok());
  swept.simulate(points, *directory, 0);
  const Result<Row> row = read_row(directory->run(points, 0), Strings{"sync.policy"}, 0.5);
  REQUIRE(row.is_ok());
  // 2 workers x 10 iterations: 10 clocks of 200 ms; one worker of two waits 100 ms in each but the last.
  CHECK(row->settings == Strings{"bsp"});
  CHECK(row->status == "ok");
  CHECK(row->seed == 7);
  CHECK(row->values[quantity("iterations")] == 20.0);
  CHECK(row->values[quantity("wall_s")] == Approx(2.0));
  CHECK(row->values[quantity("iterations_per_s")] == Approx(10.0));
  CHECK(row->values[quantity("compute_s")] == Approx(1.5));
  CHECK(row->values[quantity("barrier_s")] == Approx(0.45));
  CHECK(row->values[quantity("mean_threshold")] == 0.0);
  CHECK(std::isnan(row->values[quantity("test_accuracy")]));
  CHECK(std::isnan(row->values[quantity("s_to_target")]));
}

Row filled(double wall, double to_target, Strings settings = {}) {
  Row row;
  row.settings = std::move(settings);
  row.status = "ok";
  row.values.fill(1.0);
  row.values[quantity("wall_s")] = wall;
  row.values[quantity("s_to_target")] = to_target;
  return row;
}

TEST_CASE("the_table_has_what_is_finished_in_the_grids_order_and_quotes_commas") {
  const Swept swept;
  const Points points = swept.points({"simulate.compute.slowdown=[1, 1],[1, 2]", "sync.threshold=1,2"});
  const Rows rows{{3, filled(4.5, 2.0, {"[1, 2]", "2"})}, {0, filled(3.0, std::nan(""), {"[1, 1]", "1"})}};
  std::istringstream text(table(points, rows));
  std::string header, first, second, nothing;
  std::getline(text, header);
  std::getline(text, first);
  std::getline(text, second);
  CHECK_FALSE(std::getline(text, nothing));
  CHECK(header.starts_with("point,simulate.compute.slowdown,sync.threshold,status,seed,iterations,wall_s,"));
  CHECK(first.starts_with("1-slowdown=1-1_threshold=1,\"[1, 1]\",1,ok,0,1,3,1,"));
  CHECK(first.ends_with(",1,"));  // never reached
  CHECK(second.starts_with("4-slowdown=1-2_threshold=2,\"[1, 2]\",2,ok,0,1,4.5,1,"));
  CHECK(second.ends_with(",2"));
}

// A round of the plain run has 64 samples.
TEST_CASE("a_sweep_over_epochs_has_them_in_its_table_as_they_were_asked_for") {
  const Swept swept;
  REQUIRE(write_file_atomically(swept.config(), kSweptRun + "data: {train_samples: 640}\n").is_ok());
  const Points points = swept.points({"train.total_epochs=1,0.25"});
  const Result<Directory> directory = Directory::open(swept.out(), points);
  REQUIRE(directory.is_ok());
  Rows rows;
  for (std::size_t point = 0; point < 2; ++point) {
    swept.simulate(points, *directory, point);
    rows.emplace(point, read_row(directory->run(points, point), points.grid().swept_keys(), {}).value());
  }
  CHECK(rows.at(0).values[quantity("iterations")] == 20);
  CHECK(rows.at(1).values[quantity("iterations")] == 6);  // 2.5 rounds: 3 of them, by two workers
  std::istringstream text(table(points, rows));
  std::string line;
  REQUIRE(std::getline(text, line));
  CHECK_THAT(line, Catch::StartsWith("point,train.total_epochs,status,"));
  REQUIRE((std::getline(text, line) && std::getline(text, line)));
  CHECK_THAT(line, Catch::StartsWith("2-total_epochs=0.25,0.25,ok,"));
}

TEST_CASE("a_plot_has_the_last_axis_along_x_and_takes_seeds_together") {
  const Swept swept;
  const Points points = swept.points(
      {"sync.policy=ssp,asp", "sync.threshold=null", "run.seed=1,2", "simulate.network.latency=0s,1ms"});
  Rows rows;
  for (std::size_t p = 0; p < points.size(); ++p) {
    rows[p] = filled(static_cast<double>(p), p == 4 ? std::nan("") : 1.0);
  }
  const std::string text = plot_blocks(points, rows);
  // Points of ssp: 0..3 = seed 1 {0s, 1ms}, seed 2 {0s, 1ms}. Not all latencies are plain numbers: 0, 1.
  CHECK_THAT(text, Contains("\n\"policy=ssp\"\n\"latency=0s\" 0 2 1 1 1 1 0 2 "));
  CHECK_THAT(text, Contains("\n\"latency=1ms\" 1 2 1 1 1 2 1 3 "));
  CHECK_THAT(text, Contains("\n\n\n\"policy=asp\"\n\"latency=0s\" 0 2 1 1 1 5 4 6 "));
  // One run of two never got there: then the two have no time.
  const std::string asp = text.substr(text.find("\"policy=asp\""));
  CHECK(asp.substr(0, asp.find("\n\"latency=1ms\"")).ends_with(" NaN NaN NaN"));
  CHECK(text.ends_with(" 1 1 1\n"));
}

TEST_CASE("a_run_that_failed_or_ended_early_is_no_quick_one_in_a_plot") {
  const Swept swept;
  const Points points = swept.points({"sync.threshold=1,2", "run.seed=1,2"});
  Rows rows;
  for (std::size_t p = 0; p < 4; ++p) rows[p] = filled(5.0, 2.0);
  rows[1].complete = false;  // by run.max_seconds, after its target
  const auto line = [&](const std::string& x) {
    const std::string text = plot_blocks(points, rows);
    const std::size_t at = text.find("\"" + x);
    return text.substr(at, text.find('\n', at) - at);
  };
  CHECK_THAT(line("threshold=1"), Contains("\"threshold=1\" 1 2 NaN NaN NaN NaN"));
  CHECK(line("threshold=1").ends_with(" 2 2 2"));
  CHECK(line("threshold=2").find("NaN") == std::string::npos);
  rows[1].faultless = false;
  CHECK(line("threshold=1").ends_with(" NaN NaN NaN"));
}

TEST_CASE("a_row_of_a_run_that_lost_a_node_or_was_cut_off_says_so") {
  const Swept swept;
  const auto row = [&](const std::string& key) {
    const Points points = swept.points({key, "sync.threshold=3"});
    const Result<Directory> directory =
        Directory::open(swept.out() / std::to_string(points.fingerprint()), points);
    REQUIRE(directory.is_ok());
    swept.simulate(points, *directory, 0);
    const Result<Row> read = read_row(directory->run(points, 0), {}, {});
    REQUIRE(read.is_ok());
    return *read;
  };
  CHECK(row("run.seed=3").complete);
  const Row cut = row("run.max_seconds=500ms");
  CHECK(cut.faultless);
  CHECK_FALSE(cut.complete);
  CHECK_FALSE(row("simulate.events=[{at: 500ms, node: 1, kind: crash}]").faultless);
}

TEST_CASE("numbers_along_x_are_at_their_value") {
  const Swept swept;
  const Points points = swept.points({"sync.threshold=3,10,1"});
  const std::string text = plot_blocks(points, {{0, filled(1, 1)}, {1, filled(2, 1)}});
  CHECK_THAT(text, Contains("\"all\"\n\"threshold=3\" 3 1 1 ") && Contains("\n\"threshold=10\" 10 1 1 "));
}

TEST_CASE("progress_is_a_line_for_each_point_or_a_bar") {
  std::ostringstream lines;
  Progress progress(lines, Progress::Style::kLines, 3, 1);
  progress.draw(2);
  progress.finished("2-x: ok");
  progress.clear();
  CHECK(lines.str() == "[2/3] 2-x: ok\n");
  CHECK(progress_bar(12, 48, 2, 2, 100.0) == "[#####               ] 12/48, 2 running, 6:00 left");
  CHECK(progress_bar(0, 48, 2, 0, 1.0) == "[                    ] 0/48, 2 running");
}

}  // namespace
}  // namespace paceline::sweep
