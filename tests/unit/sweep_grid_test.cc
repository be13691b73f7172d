// What a grid is made of, and what is refused of it before anything runs.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <regex>

#include "common/config/load.h"
#include "common/files/atomic_file.h"
#include "simulate/plan.h"
#include "sweep/grid.h"

namespace paceline::sweep {
namespace {

using Catch::Contains;
using Strings = std::vector<std::string>;

Grid grid_of(const Strings& arguments, const std::string& file = "") {
  Result<Grid> grid = Grid::read(file, "grid.yaml", arguments);
  if (!grid) FAIL(grid.status().message());
  return std::move(*grid);
}

TEST_CASE("the_last_axis_is_the_innermost_loop") {
  const Grid grid = grid_of({"sync.threshold=1,3,10", "run.seed=7,8"});
  REQUIRE(grid.points() == 6);
  CHECK(grid.overrides(0) == Strings{"sync.threshold=1", "run.seed=7"});
  CHECK(grid.overrides(1) == Strings{"sync.threshold=1", "run.seed=8"});
  CHECK(grid.overrides(5) == Strings{"sync.threshold=10", "run.seed=8"});
  CHECK(grid.folder(5) == "6-threshold=10_seed=8");
}

TEST_CASE("a_value_may_be_a_list_a_map_or_a_text_with_commas") {
  const Grid lists = grid_of({"emulate.slowdown=[1,1,1,1],[1,1,1.3,1.6]"});
  REQUIRE(lists.points() == 2);
  CHECK(lists.overrides(1) == Strings{"emulate.slowdown=[1, 1, 1.3, 1.6]"});
  CHECK(lists.folder(1) == "2-slowdown=1-1-1.3-1.6");
  const Grid maps = grid_of({"simulate.events=[],[{at: 3s, node: 1, kind: crash}]"});
  CHECK(maps.overrides(1) == Strings{"simulate.events=[{at: 3s, node: 1, kind: crash}]"});
  const Grid texts = grid_of({R"(run.name="a, b",'null',null,"")"});
  REQUIRE(texts.points() == 4);
  CHECK(texts.overrides(0) == Strings{R"(run.name="a, b")"});
  CHECK(texts.overrides(1) == Strings{R"(run.name="null")"});
  CHECK(texts.overrides(2) == Strings{"run.name=null"});
  CHECK(texts.overrides(3) == Strings{R"(run.name="")"});
}

TEST_CASE("keys_that_change_together_are_one_axis") {
  const Grid grid = grid_of({"{sync.policy: bsp},{sync.policy: ssp, sync.threshold: 3}", "run.seed=1,2"});
  REQUIRE(grid.points() == 4);
  CHECK(grid.overrides(1) == Strings{"sync.policy=bsp", "run.seed=2"});
  CHECK(grid.overrides(2) == Strings{"sync.policy=ssp", "sync.threshold=3", "run.seed=1"});
  CHECK(grid.folder(2) == "3-policy=ssp_threshold=3_seed=1");
  CHECK(grid.swept_keys() == Strings{"sync.policy", "sync.threshold", "run.seed"});
}

TEST_CASE("a_file_says_the_same_as_arguments_and_comes_before_them") {
  const Grid grid = grid_of({"run.seed=1,2"},
                            "axes:\n"
                            "  - emulate.slowdown: [[1, 1], [1, 2]]\n"
                            "  - - {sync.policy: bsp}\n"
                            "    - {sync.policy: ssp, sync.threshold: 3}\n");
  CHECK(grid.points() == 8);
  CHECK(grid.overrides(6) ==
        Strings{"emulate.slowdown=[1, 2]", "sync.policy=ssp", "sync.threshold=3", "run.seed=1"});
  const Grid again = grid_of({}, grid.to_yaml());
  CHECK(again.to_yaml() == grid.to_yaml());
  CHECK(again.overrides(6) == grid.overrides(6));
}

TEST_CASE("an_axis_of_one_value_is_an_override_and_in_no_name") {
  const Grid grid = grid_of({"train.total_iterations=500", "sync.threshold=1,2"});
  CHECK(grid.folder(0) == "1-threshold=1");
  CHECK(grid.swept_keys() == Strings{"sync.threshold"});
  CHECK(grid.overrides(0) == Strings{"train.total_iterations=500", "sync.threshold=1"});
  CHECK(grid_of({"sync.threshold=1"}).folder(0) == "1");
}

TEST_CASE("keys_that_end_alike_are_named_in_full") {
  const Grid grid = grid_of({"emulate.slowdown=[1],[2]", "simulate.compute.slowdown=[1],[2]"});
  CHECK(grid.folder(0) == "1-emulate.slowdown=1_simulate.compute.slowdown=1");
}

TEST_CASE("folders_sort_as_the_grid_does_and_no_two_are_alike") {
  const Grid grid = grid_of({"run.seed=1,2,3,4,5,6,7,8,9,10,11", "run.name='a b',a-b,a/b"});
  Strings folders;
  for (std::size_t p = 0; p < grid.points(); ++p) {
    folders.push_back(grid.folder(p));
    CHECK(folders.back().find('/') == std::string::npos);
  }
  CHECK(folders.front() == "01-seed=1_name=a-b");
  CHECK(std::is_sorted(folders.begin(), folders.end()));
  CHECK(std::adjacent_find(folders.begin(), folders.end()) == folders.end());
  const std::string text(500, 'x');
  CHECK(grid_of({"run.name=" + text + "," + text + "y"}).folder(1).size() < 200);
}

TEST_CASE("a_grid_that_makes_no_sense_is_refused_in_one_line_that_names_the_key") {
  struct Case {
    Strings arguments;
    std::string line;
    std::string file = {};
  };
  std::string many = "run.seed=0";
  for (int i = 1; i < 400; ++i) many += "," + std::to_string(i);
  std::string more = "sync.threshold" + many.substr(many.find('='));
  for (const Case& bad : std::vector<Case>{
           {{}, "no axis"},
           {{"sync.threshold="}, "sync.threshold: an axis without a value"},
           {{"sync.threshold=  "}, "sync.threshold: an axis without a value"},
           {{"sync.threshold=1,,3"}, "sync.threshold: an empty value, got \"1,,3\""},
           {{"sync.threshold=1,"}, "sync.threshold: an empty value"},
           {{"sync.threshold=1],[2"}, "sync.threshold: more than one document"},
           {{"sync.threshold=1 # 3"}, "sync.threshold: YAML syntax error"},
           {{"emulate.slowdown=[1,1],[1"}, "emulate.slowdown: YAML syntax error"},
           {{"threshold"}, "not an axis, got \"threshold\""},
           {{"=1,2"}, "not an axis"},
           {{"{sync.policy: bsp},ssp"}, "not an alternative, got \"ssp\""},
           {{"{sync.policy: bsp},{}"}, "not an alternative, got a map"},
           {{"{sync.policy: bsp, sync.policy: ssp}"}, "duplicate key"},
           {{"sync.threshold=1,2", "sync.threshold=3"}, "sync.threshold: on two axes"},
           {{"{sync.policy: bsp},{sync.policy: ssp, sync.threshold: 2}", "sync.threshold=1,3"},
            "sync.threshold: on two axes"},
           {{"run.seed=1,2,1"}, "run.seed: {run.seed: 1} stands twice"},
           {{"run.out=a,b"}, "run.out: a sweep gives each point"},
           {{many, more}, "too large a grid"},
           {{}, "axes: no axis, got an empty map", "{}"},
           {{}, "grid.yaml:1: axes: wrong type", "axes: 3"},
           {{}, "grid.yaml:1: sync.threshold: unknown key", "sync.threshold: [1, 2]"},
           {{}, "grid.yaml:2: sync.threshold: an axis without a value", "axes:\n  - sync.threshold: []"},
           {{}, "sync.threshold: an axis that is no list", "axes:\n  - sync.threshold: 3"},
           {{}, "axes[0]: not an axis", "axes:\n  - {sync.policy: [bsp], sync.threshold: [3]}"},
           {{}, "no axis", "axes: []"},
           {{"run.seed=1,2"}, "run.seed: on two axes", "axes:\n  - run.seed: [3, 4]"}}) {
    INFO(bad.line);
    const Result<Grid> grid = Grid::read(bad.file, "grid.yaml", bad.arguments);
    REQUIRE_FALSE(grid.is_ok());
    CHECK_THAT(grid.status().message(), Contains(bad.line));
    CHECK(grid.status().message().find('\n') == std::string::npos);
  }
}

// Every grid of configs/ says in its comment over which configuration it goes; each of its points is one that
// can be simulated.
TEST_CASE("the_grids_of_configs_sweeps_load_over_the_configurations_that_they_name") {
  namespace fs = std::filesystem;
  const fs::path configs = PACELINE_CONFIGS_DIR;
  std::size_t grids = 0;
  for (const auto& entry : fs::directory_iterator(configs / "sweeps")) {
    INFO(entry.path().string());
    const std::string text = read_file(entry.path(), 1 << 20).value();
    std::smatch command;
    const std::regex sweep("paceline sweep configs/(\\w+\\.yaml) --grid configs/sweeps/(\\w+\\.yaml) ");
    REQUIRE(std::regex_search(text, command, sweep));
    CHECK(command[2] == entry.path().filename().string());
    const std::string config = (configs / command[1].str()).string();
    const Result<Grid> grid = Grid::read(text, entry.path().string(), {});
    if (!grid) FAIL(grid.status().message());
    for (std::size_t point = 0; point < grid->points(); ++point) {
      const Result<RunConfig> run = load_config(config, grid->overrides(point));
      if (!run) FAIL(grid->label(point) + ": " + run.status().message());
      const auto plan = simulate::make_plan(*run, nullptr);
      if (!plan) FAIL(grid->label(point) + ": " + plan.status().message());
    }
    ++grids;
  }
  CHECK(grids >= 3);
}

}  // namespace
}  // namespace paceline::sweep
