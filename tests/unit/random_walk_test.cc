// The random walk of the threshold. The coins were computed by hand (Philox written down a second time, in
// another language); so the sequences would notice another stream, another counter or another reading of it.
#include "common/sync/random_walk.h"

#include <array>
#include <catch2/catch.hpp>
#include <vector>

namespace paceline::sync {
namespace {

PolicyConfig config_of(std::uint64_t seed) {
  PolicyConfig config;
  config.kind = PolicyKind::kRandomWalk;
  config.seed = seed;
  return config;
}

WindowResult window_of(std::int64_t index, double lpr) {
  WindowResult window;
  window.index = index;
  window.samples = 1;
  window.lpr = lpr;
  return window;
}

// The threshold after each of the windows 1 to 12.
std::vector<std::int64_t> walk(const PolicyConfig& config, double lpr) {
  RandomWalk policy(config);
  std::vector<std::int64_t> path;
  for (std::int64_t k = 1; k <= 12; ++k) {
    policy.on_window(window_of(k, lpr));
    path.push_back(policy.threshold().value());
  }
  return path;
}

TEST_CASE("the_walk_is_a_function_of_the_seed") {
  using Path = std::vector<std::int64_t>;
  CHECK(walk(config_of(4), 0.0) == Path{3, 4, 5, 4, 5, 4, 5, 6, 5, 6, 5, 6});   // -++-+-++-+-+
  CHECK(walk(config_of(5), 0.0) == Path{4, 5, 6, 7, 6, 5, 6, 5, 6, 7, 6, 7});   // ++++--+-++-+
  CHECK(walk(config_of(8), 0.0) == Path{4, 3, 4, 5, 6, 7, 8, 7, 8, 9, 10, 9});  // +-+++++-+++-
}

TEST_CASE("at_its_ends_it_stays") {
  PolicyConfig narrow = config_of(5);  // ++++--+-++-+
  narrow.threshold = 1;
  narrow.threshold_min = 0;
  narrow.threshold_max = 2;
  CHECK(walk(narrow, 0.0) == std::vector<std::int64_t>{2, 2, 2, 2, 1, 0, 1, 0, 1, 2, 1, 2});
}

TEST_CASE("what_was_learned_plays_no_part") { CHECK(walk(config_of(7), 50.0) == walk(config_of(7), -50.0)); }

TEST_CASE("it_moves_only_where_dtssp_could_have_moved") {
  RandomWalk policy(config_of(5));
  WindowResult first = window_of(1, 0.0);
  first.lpr.reset();  // nothing to compare with
  policy.on_window(first);
  CHECK(policy.threshold() == Threshold(3));
  policy.on_window(window_of(2, 0.0));
  CHECK(policy.threshold() == Threshold(4));
}

TEST_CASE("in_the_long_run_each_threshold_is_as_frequent_as_any_other") {
  constexpr int kWindows = 100'000;
  RandomWalk policy(config_of(1));
  std::array<int, 11> visits{};
  for (int k = 1; k <= kWindows; ++k) {
    policy.on_window(window_of(k, 0.0));
    ++visits[static_cast<std::size_t>(policy.threshold().value())];
  }
  for (std::size_t s = 0; s < visits.size(); ++s) {
    INFO("threshold " << s);
    if (s < 3) CHECK(visits[s] == 0);
    if (s >= 3) CHECK(visits[s] == Approx(kWindows / 8.0).epsilon(0.15));
  }
}

}  // namespace
}  // namespace paceline::sync
