// A RunStatus in which everything is said.
#pragma once

#include "common/live/run_status.h"

namespace paceline::testing {

inline RunStatus full_status() {
  RunStatus s;
  s.run = "my-run";
  s.policy = "dtssp";
  s.state = "training";
  s.seconds = 61.5;
  s.version = Version(117);
  s.min_clock = Clock(117);
  s.max_clock = Clock(120);
  s.threshold = Threshold(3);
  s.learning_rate = 0.04;
  s.lpr = 1.25;
  s.train_loss = 0.8123;
  s.train_accuracy = 0.712;
  s.test_loss = 0.9;
  s.test_accuracy = 0.701;
  s.iterations = 340;
  s.iterations_total = 1000;
  s.skipped = 1;
  s.dropped = 2;
  s.iterations_lost = 3;
  s.samples = 5440;
  s.iterations_per_second = 9.0;
  s.samples_per_second = 1440.0;
  s.done = 0.34;
  s.seconds_left = 72.0;
  s.nodes_lost = 1;
  s.curve_rows = 12;
  s.waits = {"1 worker waits for version 118: worker 1.0 has not reported"};
  s.waits_total = 1;
  s.stall = "for 10.3 s: worker 0.1 waits for version 118";
  s.stragglers = {WorkerId(1, 0)};
  s.nodes = {{0, true, 0.2}, {1, true, 0.4}, {2, false, {}}};
  s.shards = {{0, true, {}}, {1, true, 0.1}};
  s.workers_total = 3;
  s.workers = {{WorkerId(0, 0), Clock(118), "computing", "", StragglerScore{1.0, 1.0, 0.2}},
               {WorkerId(0, 1), Clock(120), "held", "worker 1.0", StragglerScore{0.9, 0.95, 0.22}},
               {WorkerId(1, 0), Clock(117), "pushing", "shard 1", {}}};
  s.server = {1000, 2000, 3000, 40, 5};
  s.workers[0].times = PhaseTimes{{1, 600, 0, 80, 2, 100, 30, 4, 3}, 1'000};
  s.workers[0].samples = 224;
  s.moved = {1500, 2500, 3500};
  s.staleness_clocks = {{0, 200}, {3, 140}};
  s.staleness_gradients = {{2, 340}};
  return s;
}

}  // namespace paceline::testing
