// One training thread on a fake exchange, two parameters in one slice or two, in time that only the test
// moves.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "tests/unit/worker_fixture.h"
#include "worker/train/trainer.h"

namespace paceline::testing {

struct TrainFixture {
  static constexpr Range kAll{0, 2};

  ManualTime time;
  ProcessCache cache;
  FakeExchange exchange{cache, time};
  ScriptedTask task;
  Layout layout = make_layout();
  EmulateSection emulate;
  std::function<Ticks()> clock = [this] { return time.now(); };

  explicit TrainFixture(std::vector<Range> ranges = {kAll}) : cache(std::move(ranges)) {
    exchange.serve = [this](Version min) {
      return std::vector{slice_of(kAll, min.value, {Clock(min.value)}, {0, 0})};
    };
  }

  static Layout make_layout() {
    Layout layout;
    PACELINE_ASSERT(layout.add("w", {2}).is_ok(), "layout");
    return layout;
  }

  // Made when the test has set everything up.
  WorkerContext& training() {
    if (!training_) {
      training_.reset(
          new WorkerContext{.worker = WorkerId(0, 0),
                            .layout = layout,
                            .checks_finite = checks_finite,
                            .batches = batches,
                            .deadline = std::chrono::seconds(20),
                            .coordinator = exchange,
                            .exchange = exchange,
                            .process_cache = cache,
                            .task = task,
                            .pace = time,
                            .step = step::WorkerStep({refresh_clocks, pulls_before_push, applies_locally}),
                            .cache = ThreadCache({}, cache.ranges(), 0, std::move(vectors)),
                            .gradients = GradientBuffers(2),
                            .emulator = Emulator(emulate, 1, Cluster{1, 1}, WorkerId(0, 0), 1),
                            .phases = PhaseRecorder(clock),
                            .clock = clock});
    }
    return *training_;
  }
  WorkerContext* training_if_made() { return training_.get(); }
  Result<WorkDone> run() { return run_trainer(training()); }

  std::optional<std::int64_t> refresh_clocks = 1;
  bool pulls_before_push = true;
  bool applies_locally = true;
  bool checks_finite = true;
  BatchLimits batches{.least = 1, .most = 4, .end = 1000};
  std::unique_ptr<CacheVectors> vectors;  // the thread cache's; null: the host's

 private:
  std::unique_ptr<WorkerContext> training_;
};

}  // namespace paceline::testing
