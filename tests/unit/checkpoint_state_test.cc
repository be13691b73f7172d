// The bytes of a core's state: all of it comes back, and whatever bytes come, nothing but a Status does harm.
#include <catch2/catch.hpp>
#include <cstdint>

#include "common/checkpoint/engine_state.h"
#include "common/random.h"
#include "common/sync/engine.h"

namespace paceline::checkpoint {
namespace {

sync::EngineState full_state() {
  sync::EngineState state;
  state.cluster = {2, 2};
  state.total_iterations = 1'000'000'000'000;
  state.batch_size = 64;
  state.version = Version(7);
  state.revision = Revision(29);
  state.skipped = 2;
  state.left = {{30, 1}, {33, 2}, {36, 999'999'999'964}};
  state.workers = {{true, 3}, {true, 4'000'000'000, true}, {false, 0}, {false, 1}};
  state.policy = {PolicyKind::kSwitch, 5, 1, Version(4), sync::StageWindow{0.75, 0.5}};
  state.lpr = {3, {{1.5, 2, 64}, {0.1, 0, 0}}, 0.25};
  state.batch_sizes = {48, 80, 64, 64};
  state.dropped = 6;
  state.lost = 8;
  state.max_grant_gap = Staleness(2);
  state.max_clock_gap = Staleness(3);
  return state;
}

TEST_CASE("all_of_a_state_comes_back") {
  const sync::EngineState state = full_state();
  const Result<sync::EngineState> back = engine_state_from_bytes(to_bytes(state));
  REQUIRE(back.is_ok());
  CHECK(back->cluster.nodes == 2);
  CHECK(back->cluster.threads_per_node == 2);
  CHECK(back->total_iterations == state.total_iterations);
  CHECK(back->batch_size == 64);
  CHECK(back->version == state.version);
  CHECK(back->revision == state.revision);
  CHECK(back->skipped == 2);
  CHECK(back->left == state.left);
  REQUIRE(back->workers.size() == 4);
  CHECK(back->workers[1].there);
  CHECK(back->workers[1].staleness == 4'000'000'000);
  CHECK(back->workers[1].starts_over);
  CHECK_FALSE(back->workers[0].starts_over);
  CHECK_FALSE(back->workers[3].there);
  CHECK(back->policy.kind == PolicyKind::kSwitch);
  CHECK(back->policy.threshold == 5);
  CHECK(back->policy.stage == 1);
  CHECK(back->policy.stage_begun_at == Version(4));
  CHECK(back->policy.stage_window->loss_mean == 0.75);
  CHECK(back->policy.stage_window->accuracy == 0.5);
  CHECK(back->lpr.window_clocks == 3);
  REQUIRE(back->lpr.open.size() == 2);
  CHECK(back->lpr.open[0].loss_sum == 1.5);
  CHECK(back->lpr.open[0].correct == 2);
  CHECK(back->lpr.open[1].samples == 0);
  CHECK(back->lpr.previous == 0.25);
  CHECK(back->batch_sizes == state.batch_sizes);
  CHECK(back->dropped == 6);
  CHECK(back->lost == 8);
  CHECK(back->max_grant_gap == Staleness(2));
  CHECK(back->max_clock_gap == Staleness(3));
  CHECK(to_bytes(*back) == to_bytes(state));
}

TEST_CASE("what_a_state_need_not_have_comes_back_as_nothing") {
  sync::EngineState state = full_state();
  state.policy.stage_window.reset();
  state.lpr.previous.reset();
  state.left.clear();
  state.batch_sizes.clear();
  const Result<sync::EngineState> back = engine_state_from_bytes(to_bytes(state));
  REQUIRE(back.is_ok());
  CHECK_FALSE(back->policy.stage_window);
  CHECK_FALSE(back->lpr.previous);
  CHECK(back->left.empty());
  CHECK(back->batch_sizes.empty());
}

TEST_CASE("bytes_that_are_no_state_are_refused_by_name") {
  const auto refusal = [](const sync::EngineState& state) {
    const Status status = engine_state_from_bytes(to_bytes(state)).status();
    CHECK(status.code() == StatusCode::kDataLoss);
    return status.message();
  };
  sync::EngineState state = full_state();
  state.workers.pop_back();
  CHECK(refusal(state) == "engine state: workers: got 3, expected 4, nodes x threads");
  state = full_state();
  state.left = {{30, 2}, {31, 1}};
  CHECK(refusal(state).find("engine state: left gap: got -1") == 0);
  state.left = {{30, 0}};
  CHECK(refusal(state).find("engine state: left count: got 0") == 0);
  state.left = {{30, INT64_MAX - 30}, {INT64_MAX, 1}};
  CHECK(refusal(state).find("engine state: left count: got 1") == 0);
  CHECK(engine_state_from_bytes("").status().message().find("engine state: format: got 0, expected 1") == 0);
  CHECK(engine_state_from_bytes("no such thing").status().message().find("13 bytes") != std::string::npos);
}

// Two kinds of faults each lets through sometimes: those that a checksum sees, and another run's. What comes
// through is a state, of which the engine says whether it can be its own.
TEST_CASE("cut_off_or_changed_bytes_are_refused_or_are_a_state_and_never_an_assertion") {
  sync::EngineConfig config;
  config.cluster = {2, 2};
  config.total_iterations = 100;
  config.policy.kind = PolicyKind::kDtssp;
  sync::Engine engine(config);
  std::vector<sync::Action> actions;
  for (std::uint32_t r = 0; r < 4; ++r) {
    engine.step(sync::Joined{config.cluster.worker_at(Rank(r))}, Ticks(0), actions);
  }
  const std::string bytes = to_bytes(engine.state());
  REQUIRE(sync::Engine::resumed(config, *engine_state_from_bytes(bytes)).is_ok());
  int refused = 0, taken = 0;
  const auto try_reading = [&](const std::string& changed) {
    const Result<sync::EngineState> state = engine_state_from_bytes(changed);
    const bool is_ok = state.is_ok() && sync::Engine::resumed(config, *state).is_ok();
    ++(is_ok ? taken : refused);
  };
  for (std::size_t length = 0; length < bytes.size(); ++length) try_reading(bytes.substr(0, length));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      try_reading(changed);
    }
  }
  CounterRandom random(3, Stream::kTest, 24);
  for (int i = 0; i < 20'000; ++i) {
    std::string changed = bytes;
    for (int n = 0; n < 4; ++n)
      changed[random.next_below(changed.size())] = static_cast<char>(random.next_u32());
    try_reading(changed);
  }
  CHECK(refused > 10'000);
  CHECK(taken < refused);
}

}  // namespace
}  // namespace paceline::checkpoint
