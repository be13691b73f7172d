// The files of configs/ that a newcomer compares, simulated with a small network in place of theirs: under the
// schedule and rate that they share every policy learns, and those that let the fast go ahead save what BSP waits.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "common/config/load.h"
#include "tests/unit/simulate_fixture.h"
#include "tests/unit/temp_folder.h"
#include "tests/unit/training_fixture.h"

namespace paceline::test {
namespace {

using simulate::Outcome;

Outcome trained_file(const std::string& name, const std::string& data) {
  const std::vector<std::string> overrides{
      "simulate.mode=training",
      "train.model=layers",
      "train.layers=[{kind: conv, out: 8, kernel: 5, stride: 2}, {kind: relu}, {kind: pool, kernel: 4}, "
      "{kind: flatten}, {kind: dense, out: 10}]",
      "train.batch_size=16",
      "train.optimizer.lr=0.002",  // so small a network bears more
      "train.eval_every_clocks=null",
      "data.path=" + data};
  const auto config = load_config(std::string(PACELINE_CONFIGS_DIR) + "/" + name + ".yaml", overrides);
  if (!config) FAIL(config.status().message());
  return trained(*config);
}

// The place of the worker that computed for the longest time.
std::size_t busiest(const Outcome& run) {
  const auto computed = [](const WorkerPhases& worker) {
    return worker.totals[Phase::kComputeGrads].total_ns;
  };
  const auto longest =
      std::max_element(run.phases.begin(), run.phases.end(),
                       [&](const auto& a, const auto& b) { return computed(a) < computed(b); });
  return static_cast<std::size_t>(longest - run.phases.begin());
}

}  // namespace

TEST_CASE("the policies that a newcomer compares all learn, and are faster by what bsp waits") {
  const testing::TempFolder folder;
  SyntheticOptions synthetic;
  synthetic.out = folder / "data";
  synthetic.train_samples = 2000;
  synthetic.test_samples = 1000;
  REQUIRE(write_synthetic(synthetic).is_ok());
  std::map<std::string, Outcome> runs;
  for (const char* name : {"bsp", "ssp", "dtssp", "asp"}) runs[name] = trained_file(name, synthetic.out);

  const Outcome& bsp = runs["bsp"];
  for (const auto& [name, run] : runs) {
    INFO(name << ": " << *run.summary.test_accuracy << ", loss " << *run.summary.test_loss << ", "
              << run.summary.wall_seconds << " s");
    CHECK(run.summary.status == "ok");
    CHECK(*run.summary.test_loss < 1.9);  // a guess has 2.303; these have 1.65
    CHECK(*run.summary.test_accuracy > *bsp.summary.test_accuracy - 0.05);
    if (name == "bsp") continue;
    CHECK(run.summary.wall_seconds < 0.85 * bsp.summary.wall_seconds);
    // The worker with the most to compute ends the run; its iterations take it as long in either. Of bsp's last clock
    // another may be the last.
    const std::size_t last = busiest(run);
    CHECK(bsp.summary.wall_seconds - run.summary.wall_seconds ==
          Approx(barrier(bsp, last) - barrier(run, last)).margin(0.39));
  }
}

}  // namespace paceline::test
