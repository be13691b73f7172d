// LARS and LAMB: three steps against numbers found by hand, what does not adapt, zero norms, and the same bits
// however the vector is cut.
#include "common/params/trust_ratio.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "common/params/optimizer.h"
#include "common/params/shard_ranges.h"
#include "common/random.h"

using namespace paceline;

namespace {

// One weight of two elements and its bias.
Layout weight_and_bias() {
  Layout layout;
  REQUIRE((layout.add("fc.weight", {2}).is_ok() && layout.add("fc.bias", {1}).is_ok()));
  return layout;
}

OptimizerSection lars(MomentumForm form) {
  OptimizerSection section;
  section.kind = OptimizerKind::kLars;
  section.momentum_form = form;
  section.momentum = 0.5;
  section.trust_coefficient = 0.5;
  section.epsilon = 1e-12;
  section.decay = TensorsOf::kWeights;
  return section;
}

OptimizerState state_of(const Layout& layout, const OptimizerSection& section) {
  return {section, layout.size(), layout.size(), FactorRanges(layout, section, {0, layout.size()})};
}

// What `parameters` become with these gradients and rates.
struct Step {
  std::vector<float> gradient;
  double rate = 1.0;
};
std::vector<float> after(const Layout& layout, const OptimizerSection& section, std::vector<float> parameters,
                         const std::vector<Step>& steps) {
  OptimizerState state = state_of(layout, section);
  for (const Step& step : steps) state.apply(parameters, step.gradient, step.rate);
  return parameters;
}

void check_near(const std::vector<float>& got, const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK(got[i] == Approx(expected[i]).epsilon(1e-6).margin(1e-6));
}

// Rates and gradients of three steps; the rate changes twice.
const std::vector<Step> kThree = {{{0, 8, 1}, 1.6}, {{0, -1, 1}, 4.0}, {{2, 0, 0}, 0.8}};

}  // namespace

// w = (3, 4), eta 0.5, mu 0.5:
//   1   |w| 5, |g| 8: r = 0.5 x 5 / 8.  u = 1.6 r g = (0, 4)                       w = (3, 0)
//   2   |w| 3, |g| 1: r = 1.5.          u = (0, 2) + 4 x 1.5 (0, -1) = (0, -4)     w = (3, 4)
//   3   |w| 5, |g| 2: r = 1.25.         u = (0, -2) + 0.8 x 1.25 (2, 0) = (2, -2)  w = (1, 6)
// The bias has plain momentum: u = 1.6, 0.8 + 4, 2.4: 10 - 1.6 - 4.8 - 2.4.
TEST_CASE("lars_takes_three_steps_as_found_by_hand") {
  check_near(after(weight_and_bias(), lars(MomentumForm::kInside), {3, 4, 10}, kThree), {1, 6, 1.2});
}

// As above, v without the rate: 1: v = (0, 2.5), w = (3, 0); 2: v = (0, 1.25) - (0, 1.5) = (0, -0.25), w = (3, 1);
// 3: |w| = sqrt(10), r = sqrt(10) / 4, v = (sqrt(10) / 2, -0.125), w = (3 - 0.4 sqrt(10), 1.1).
TEST_CASE("lars_with_momentum_outside_is_lars_inside_with_its_kept_step_corrected") {
  const double root = std::sqrt(10.0);
  const std::vector<float> outside =
      after(weight_and_bias(), lars(MomentumForm::kOutside), {3, 4, 10}, kThree);
  check_near(outside, {3 - 0.4 * root, 1.1, 10 - 1.6 - 4 * 1.5 - 0.8 * 0.75});

  // Goyal et al., 2017, (10): u <- mu (rate / rate before) u + rate r g.
  double w[2] = {3, 4}, u[2] = {0, 0}, before = kThree[0].rate;
  for (const Step& step : kThree) {
    const double r =
        0.5 * std::hypot(w[0], w[1]) / std::hypot(double{step.gradient[0]}, double{step.gradient[1]});
    for (int i = 0; i < 2; ++i) {
      u[i] = 0.5 * (step.rate / before) * u[i] + step.rate * r * step.gradient[static_cast<std::size_t>(i)];
      w[i] -= u[i];
    }
    before = step.rate;
  }
  check_near({outside[0], outside[1]}, {w[0], w[1]});
}

TEST_CASE("momentum_outside_is_momentum_inside_with_its_kept_step_corrected") {
  Layout layout;
  REQUIRE(layout.add("w", {1}).is_ok());
  OptimizerSection section;
  section.kind = OptimizerKind::kMomentum;
  const std::vector<Step> steps = {{{2}, 0.1}, {{-1}, 0.4}, {{3}, 0.05}};
  const auto outside = after(layout, section, {1}, steps);
  double w = 1, u = 0, before = 0.1;
  for (const Step& step : steps) {
    u = 0.9 * (step.rate / before) * u + step.rate * step.gradient[0];
    w -= u;
    before = step.rate;
  }
  check_near(outside, {w});
  section.momentum_form = MomentumForm::kInside;  // without the correction: 0.8, 1.02, 1.068
  check_near(after(layout, section, {1}, steps), {1.068});
}

// |w| 5, |g| 5, wd 0.2: r = 0.5 x 5 / (5 + 0.2 x 5) = 5 / 12, times g + 0.2 w = (0.6, 5.8).
TEST_CASE("lars_adds_the_decay_behind_the_norm_and_spares_biases") {
  OptimizerSection section = lars(MomentumForm::kInside);
  section.weight_decay = 0.2;
  const Step step{{0, 5, 1}, 1.0};
  check_near(after(weight_and_bias(), section, {3, 4, 10}, {step}), {2.75, 4 - 5.8 * 5 / 12, 9});
  section.decay = TensorsOf::kAll;
  check_near(after(weight_and_bias(), section, {3, 4, 10}, {step}), {2.75, 4 - 5.8 * 5 / 12, 7});
  section.trust = TensorsOf::kAll;  // of the bias: 0.5 x 10 / (1 + 0.2 x 10)
  check_near(after(weight_and_bias(), section, {3, 4, 10}, {step}), {2.75, 4 - 5.8 * 5 / 12, 5});
  section.trust_ratio_max = 0.25;
  check_near(after(weight_and_bias(), section, {3, 4, 10}, {step}), {2.85, 2.55, 9.25});
}

// As above, g + 0.2 w = (0.6, 5.8): r = 0.5 x 5 / sqrt(0.6^2 + 5.8^2) = 2.5 / sqrt(34).
TEST_CASE("lars_may_measure_the_gradient_with_its_decay") {
  OptimizerSection section = lars(MomentumForm::kInside);
  section.weight_decay = 0.2;
  section.trust_norm = TrustNorm::kWithDecay;
  const double ratio = 2.5 / std::sqrt(34.0);
  const Step step{{0, 5, 1}, 1.0};
  check_near(after(weight_and_bias(), section, {3, 4, 10}, {step}), {3 - 0.6 * ratio, 4 - 5.8 * ratio, 9});
}

// w = (3, 4), |g| 8: r = 0.5 x 5 / 8 = 0.3125, in place of the rate where that is greater: at 1.6 a step of r g = (0,
// 2.5), at 0.25 one of 0.25 g = (0, 2). A bias has the rate itself, and so has a tensor of zeros.
TEST_CASE("lars_clipped_takes_the_smaller_of_ratio_and_rate") {
  for (const MomentumForm form : {MomentumForm::kInside, MomentumForm::kOutside}) {
    OptimizerSection section = lars(form);
    section.trust_clip = true;
    check_near(after(weight_and_bias(), section, {3, 4, 10}, {{{0, 8, 1}, 1.6}}), {3, 1.5, 8.4});
    check_near(after(weight_and_bias(), section, {3, 4, 10}, {{{0, 8, 1}, 0.25}}), {3, 2, 9.75});
    check_near(after(weight_and_bias(), section, {0, 0, 10}, {{{0, 8, 1}, 1.6}}), {0, -12.8, 8.4});
  }
}

// NumPy, betas 0.9 and 0.999, epsilon 1e-6, wd 0.1:
//   m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g g; u = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps) + 0.1 w
//   w -= rate |w| / |u| u;   |w| / |u| = 3.492154, 3.759737, 5.414967
TEST_CASE("lamb_takes_three_steps_as_numpy_does") {
  OptimizerSection section;
  section.kind = OptimizerKind::kLamb;
  section.epsilon = 1e-6;
  section.weight_decay = 0.1;
  section.decay = TensorsOf::kWeights;
  const std::vector<Step> steps = {{{1, -2, 0}, 0.1}, {{2, 2, 0}, 0.1}, {{-1, 0.5, 0}, 0.2}};
  check_near(after(weight_and_bias(), section, {3, 4, 10}, {steps[0]}), {2.5460203, 4.20952908, 10});
  check_near(after(weight_and_bias(), section, {3, 4, 10}, steps), {1.40639464, 3.43096075, 10});
}

TEST_CASE("lamb_without_bias_correction_or_ratio_is_adam_so") {
  Layout layout;
  REQUIRE(layout.add("fc.bias", {2}).is_ok());
  OptimizerSection section;
  section.kind = OptimizerKind::kLamb;
  section.bias_correction = false;
  const std::vector<Step> steps = {{{1, -2}, 0.1}, {{2, 2}, 0.2}};
  const auto of_lamb = after(layout, section, {3, 4}, steps);
  section.kind = OptimizerKind::kAdam;
  check_near(after(layout, section, {3, 4}, steps), {of_lamb[0], of_lamb[1]});
  // m = 0.1, v = 0.001: 3 - 0.1 x 0.1 / sqrt(0.001).
  check_near(after(layout, section, {3, 4}, {steps[0]}),
             {3 - 0.01 / std::sqrt(0.001), 4 + 0.01 / std::sqrt(0.001)});
}

TEST_CASE("a_tensor_of_zeros_learns_and_one_without_a_gradient_stays") {
  const auto kind = GENERATE(OptimizerKind::kLars, OptimizerKind::kLamb);
  OptimizerSection section = lars(MomentumForm::kInside);
  section.kind = kind;
  Layout layout;
  REQUIRE((layout.add("zeros", {2}).is_ok() && layout.add("still", {2}).is_ok()));
  const auto moved = after(layout, section, {0, 0, 3, 4}, {{{1, 1, 0, 0}, 0.5}});
  CHECK(moved[0] == Approx(-0.5));  // the ratio is 1, and LAMB's first step is one of length 1
  CHECK(moved[1] == moved[0]);
  CHECK((moved[2] == 3.0F && moved[3] == 4.0F));
}

TEST_CASE("what_is_not_trained_stays_and_a_buffer_goes_to_what_was_measured") {
  const auto kind = GENERATE(OptimizerKind::kLars, OptimizerKind::kLamb);
  OptimizerSection section = lars(MomentumForm::kInside);
  section.kind = kind;
  section.trust = TensorsOf::kAll;
  Layout layout;
  REQUIRE(layout.add("frozen", {2}, {.lr_factor = 0.0}).is_ok());
  REQUIRE(layout.add("mean", {1}, {.role = TensorRole::kBuffer, .lr_factor = 0.5}).is_ok());
  REQUIRE(layout.add("trained", {1}).is_ok());
  const auto moved = after(layout, section, {1, 2, 3, 4}, {{{1, 1, 1, 1}, 0.5}, {{1, 1, 1, 1}, 0.5}});
  CHECK((moved[0] == 1.0F && moved[1] == 2.0F && moved[2] == 1.5F && moved[3] < 4.0F));
}

namespace {

// Tensors of lengths that end anywhere in a part, a lane or a block.
Layout uneven_layout() {
  Layout layout;
  for (const std::int64_t n : {5000, 1, 4096, 77, 8193, 12}) {
    const std::string at = std::to_string(layout.tensors().size());
    REQUIRE(layout.add(n < 100 ? at + ".bias" : at + ".weight", {n}).is_ok());
  }
  return layout;
}

std::vector<float> random_floats(std::uint64_t key, std::int64_t n) {
  CounterRandom random(1, Stream::kTest, key);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& v : values) v = static_cast<float>(random.next_normal());
  return values;
}

// In blocks of the state and of both vectors, by several threads.
std::vector<float> stepped_in(const Layout& layout, const OptimizerSection& section, Range range,
                              std::int64_t block, std::int64_t threads) {
  OptimizerState state(section, range.size(), block, FactorRanges(layout, section, range));
  const auto cut = [&](std::vector<float> all) {
    return std::vector<float>(all.begin() + range.begin, all.begin() + range.end);
  };
  std::vector<float> parameters = cut(random_floats(0, layout.size()));
  const RunParts run = [&](std::int64_t count, const std::function<void(std::int64_t)>& work) {
    std::vector<std::thread> all;
    for (std::int64_t t = 0; t < threads; ++t) {
      all.emplace_back([&, t] {
        for (std::int64_t i = count - 1 - t; i >= 0; i -= threads) work(i);
      });
    }
    for (std::thread& thread : all) thread.join();
  };
  for (std::uint64_t step = 1; step <= 3; ++step) {
    const std::vector<float> gradient = cut(random_floats(step, layout.size()));
    const auto in_blocks = [&](const std::vector<float>& vector) -> FloatsFrom {
      return [&vector, block](std::int64_t offset, std::int64_t n) {
        const std::int64_t rest = std::min(n, block - offset % block);
        return std::span<const float>(vector).subspan(static_cast<std::size_t>(offset),
                                                      static_cast<std::size_t>(rest));
      };
    };
    state.begin_step(0.1);
    state.measure(in_blocks(parameters), in_blocks(gradient), run);
    state.apply(0, parameters, parameters, gradient);
  }
  return parameters;
}

}  // namespace

TEST_CASE("shards_blocks_and_threads_change_no_bit_of_lars_and_lamb") {
  const auto kind = GENERATE(OptimizerKind::kLars, OptimizerKind::kLamb);
  const Layout layout = uneven_layout();
  OptimizerSection section;
  section.kind = kind;
  section.weight_decay = 0.01;
  const auto whole = stepped_in(layout, section, {0, layout.size()}, layout.size(), 1);
  CHECK(stepped_in(layout, section, {0, layout.size()}, 1000, 3) == whole);
  for (const std::uint32_t shards : {2U, 3U, 9U}) {
    std::vector<float> all;
    for (const Range& range : shard_ranges(layout, section, shards)) {
      const auto part = stepped_in(layout, section, range, 513, 2);
      all.insert(all.end(), part.begin(), part.end());
    }
    CHECK(all == whole);
  }
}

TEST_CASE("a_checkpointed_state_goes_on_with_the_same_bits") {
  const auto kind = GENERATE(OptimizerKind::kLars, OptimizerKind::kLamb);
  const Layout layout = uneven_layout();
  OptimizerSection section;
  section.kind = kind;
  OptimizerState state = state_of(layout, section);
  std::vector<float> parameters = random_floats(0, layout.size());
  state.apply(parameters, random_floats(1, layout.size()), 0.1);
  std::vector<float> again = parameters;
  OptimizerState resumed = state_of(layout, section);
  const bool was_ahead = GENERATE(false, true);
  if (was_ahead) {
    std::vector<float> others = parameters;
    for (int step = 0; step < 3; ++step) resumed.apply(others, random_floats(3, layout.size()), 0.1);
  }
  REQUIRE(resumed.restore(state.image()).is_ok());
  state.apply(parameters, random_floats(2, layout.size()), 0.1);
  resumed.apply(again, random_floats(2, layout.size()), 0.1);
  CHECK(again == parameters);
}

TEST_CASE("shards_end_with_tensors_where_norms_are_needed_and_anywhere_else") {
  Layout layout;
  REQUIRE((layout.add("conv", {800}).is_ok() && layout.add("conv.bias", {20}).is_ok()));
  REQUIRE((layout.add("fc", {1600}).is_ok() && layout.add("fc.bias", {10}).is_ok()));
  OptimizerSection section;
  CHECK(shard_ranges(layout, section, 2) == std::vector<Range>{{0, 1215}, {1215, 2430}});
  section.kind = OptimizerKind::kLars;
  CHECK(shard_ranges(layout, section, 1) == std::vector<Range>{{0, 2430}});
  CHECK(shard_ranges(layout, section, 2) == std::vector<Range>{{0, 820}, {820, 2430}});
  CHECK(shard_ranges(layout, section, 3) == std::vector<Range>{{0, 800}, {800, 820}, {820, 2430}});
  CHECK(shard_ranges(Layout(), section, 2) == std::vector<Range>{{0, 0}, {0, 0}});
}
