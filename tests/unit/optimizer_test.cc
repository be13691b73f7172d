// Optimizers: known numbers, and the same bits as the plain loop for every kind, length, cut and place.
#include "common/params/optimizer.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <tuple>

#include "common/random.h"
#include "tests/unit/optimizer_plain.h"

using namespace paceline;

namespace {

std::vector<float> random_floats(std::uint64_t key, std::size_t n) {
  CounterRandom random(1, Stream::kTest, key);
  std::vector<float> values(n);
  // Several orders of magnitude, so that rounding differs in every operation.
  for (float& v : values)
    v = static_cast<float>(random.next_normal() * std::pow(10.0, random.next_double() * 6 - 4));
  return values;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// Every kind and form with every decay.
std::vector<OptimizerSection> all_optimizers() {
  std::vector<OptimizerSection> all;
  for (const auto& [kind, nesterov, inside] : {std::tuple{OptimizerKind::kSgd, false, false},
                                               {OptimizerKind::kMomentum, false, false},
                                               {OptimizerKind::kMomentum, true, false},
                                               {OptimizerKind::kMomentum, false, true},
                                               {OptimizerKind::kMomentum, true, true},
                                               {OptimizerKind::kAdam, false, false},
                                               {OptimizerKind::kAdagrad, false, false},
                                               {OptimizerKind::kRmsprop, false, false},
                                               {OptimizerKind::kAdadelta, false, false}}) {
    for (const auto& [weight_decay, decoupled] : {std::pair{0.0, false}, {0.01, false}, {0.01, true}}) {
      OptimizerSection section;
      section.kind = kind;
      section.nesterov = nesterov;
      if (inside) section.momentum_form = MomentumForm::kInside;
      section.weight_decay = weight_decay;
      section.decoupled = decoupled;
      all.push_back(section);
      if (weight_decay == 0.0 || decoupled) continue;
      section.decay_norm = DecayNorm::kL1;
      all.push_back(section);
    }
  }
  return all;
}

constexpr int kSteps = 3;
double rate_of(int step) { return 0.1 / (1 + step); }

// The plain loop's parameters after kSteps gradients.
std::vector<float> plain_result(const OptimizerSection& section, std::size_t n) {
  testing::PlainOptimizer plain(section, n);
  std::vector<float> parameters = random_floats(0, n);
  for (int step = 0; step < kSteps; ++step)
    plain.apply(parameters, random_floats(1 + step, n), rate_of(step));
  return parameters;
}

}  // namespace

TEST_CASE("every_optimizer_has_the_bits_of_the_plain_loop_at_every_length") {
  const auto index = GENERATE(range(0, 27));
  const OptimizerSection section = all_optimizers()[static_cast<std::size_t>(index)];
  for (std::size_t n : {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 1000, 4099}) {
    OptimizerState state(section, static_cast<std::int64_t>(n));
    std::vector<float> parameters = random_floats(0, n);
    for (int step = 0; step < kSteps; ++step)
      state.apply(parameters, random_floats(1 + step, n), rate_of(step));
    INFO("optimizer " << index << ", " << n << " floats");
    REQUIRE(same_bits(parameters, plain_result(section, n)));
  }
}

TEST_CASE("every_cut_into_pieces_gives_the_same_bits_in_place_and_out_of_place") {
  constexpr std::size_t kFloats = 1003;
  const auto index = GENERATE(range(0, 27));
  const OptimizerSection section = all_optimizers()[static_cast<std::size_t>(index)];
  const std::vector<float> expected = plain_result(section, kFloats);
  CounterRandom random(2, Stream::kTest, static_cast<std::uint64_t>(index));
  for (int trial = 0; trial < 20; ++trial) {
    OptimizerState state(section, kFloats);
    std::vector<float> parameters = random_floats(0, kFloats);
    for (int step = 0; step < kSteps; ++step) {
      std::vector<float> gradient = random_floats(1 + step, kFloats);
      std::vector<float> next(kFloats);
      state.begin_step(rate_of(step));
      for (std::size_t at = 0; at < kFloats;) {
        const std::size_t n = std::min<std::size_t>(kFloats - at, 1 + random.next_below(200));
        const auto g = std::span(gradient).subspan(at, n);
        const auto in = std::span(parameters).subspan(at, n);
        // In place, beside, as copy-on-write does, and over the gradient.
        const auto out = trial % 3 == 0 ? in : trial % 3 == 1 ? std::span(next).subspan(at, n) : g;
        state.apply(static_cast<std::int64_t>(at), in, out, g);
        at += n;
      }
      if (trial % 3 == 1) parameters = next;
      if (trial % 3 == 2) parameters = gradient;
    }
    REQUIRE(same_bits(parameters, expected));
  }
}

TEST_CASE("shards_with_states_of_their_own_give_the_bits_of_one") {
  constexpr std::size_t kFloats = 500, kCut = 177;
  OptimizerSection section;
  section.kind = OptimizerKind::kAdam;
  OptimizerState left(section, kCut), right(section, kFloats - kCut);
  std::vector<float> parameters = random_floats(0, kFloats);
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<float> gradient = random_floats(1 + step, kFloats);
    left.apply(std::span(parameters).first(kCut), std::span(gradient).first(kCut), rate_of(step));
    right.apply(std::span(parameters).subspan(kCut), std::span(gradient).subspan(kCut), rate_of(step));
  }
  CHECK(same_bits(parameters, plain_result(section, kFloats)));
}

TEST_CASE("a_state_in_blocks_gives_the_same_bits_also_when_it_goes_on_from_an_image") {
  constexpr std::size_t kFloats = 1003;
  const auto index = GENERATE(range(0, 27));
  const OptimizerSection section = all_optimizers()[static_cast<std::size_t>(index)];
  OptimizerState state(section, kFloats, 7);
  std::vector<float> parameters = random_floats(0, kFloats);
  state.apply(parameters, random_floats(1, kFloats), rate_of(0));
  const OptimizerImage image = state.image();
  std::vector<float> resumed_parameters = parameters;
  OptimizerState resumed(section, kFloats, 7);
  REQUIRE(resumed.restore(image));
  for (int step = 1; step < kSteps; ++step) {  // the image is shared by both, and changed by none
    state.apply(parameters, random_floats(1 + step, kFloats), rate_of(step));
    resumed.apply(resumed_parameters, random_floats(1 + step, kFloats), rate_of(step));
  }
  CHECK(same_bits(parameters, plain_result(section, kFloats)));
  CHECK(same_bits(resumed_parameters, parameters));
  CHECK(image.steps == 1);
  CHECK(resumed.steps() == kSteps);
}

// In pieces that begin and end anywhere in a cache line, the state in blocks that do so elsewhere.
TEST_CASE("what_is_stored_past_the_caches_has_the_same_bits") {
  constexpr std::size_t kFloats = 1003;
  const auto index = GENERATE(range(0, 27));
  const OptimizerSection section = all_optimizers()[static_cast<std::size_t>(index)];
  CounterRandom random(3, Stream::kTest, static_cast<std::uint64_t>(index));
  for (const std::int64_t block : {7, 129, 1003}) {
    OptimizerState state(section, kFloats, block);
    std::vector<float> parameters = random_floats(0, kFloats);
    for (int step = 0; step < kSteps; ++step) {
      const std::vector<float> gradient = random_floats(1 + step, kFloats);
      std::vector<float> next(kFloats);
      state.begin_step(rate_of(step));
      for (std::size_t at = 0; at < kFloats;) {
        const std::size_t n = std::min<std::size_t>(kFloats - at, 1 + random.next_below(300));
        state.apply(static_cast<std::int64_t>(at), std::span(parameters).subspan(at, n),
                    std::span(next).subspan(at, n), std::span(gradient).subspan(at, n), Stores::kPastCache);
        at += n;
      }
      parameters = next;
    }
    INFO("optimizer " << index << ", blocks of " << block);
    REQUIRE(same_bits(parameters, plain_result(section, kFloats)));
  }
}

// Each tensor as if it had an optimizer of its own, with its own learning rate and weight decay.
TEST_CASE("each_tensor_has_its_own_learning_rate_and_weight_decay") {
  const auto index = GENERATE(range(0, 27));
  const OptimizerSection section = all_optimizers()[static_cast<std::size_t>(index)];
  Layout layout;
  REQUIRE(layout.add("usual", {100}));
  REQUIRE(layout.add("fast", {301}, {.lr_factor = 3.0}));
  REQUIRE(layout.add("frozen", {77}, {.lr_factor = 0.0}));
  REQUIRE(layout.add("spared", {200}, {.decay_factor = 0.0}));
  REQUIRE(layout.add("both", {325}, {.lr_factor = 0.5, .decay_factor = 250.0}));
  const auto floats = static_cast<std::size_t>(layout.size());

  std::vector<float> expected = random_floats(0, floats);
  for (const Tensor& tensor : layout.tensors()) {
    if (tensor.traits.lr_factor == 0.0) continue;
    OptimizerSection own = section;
    own.weight_decay *= tensor.traits.decay_factor;
    const auto begin = expected.begin() + tensor.offset;
    std::vector<float> part(begin, begin + tensor.size());
    testing::PlainOptimizer plain(own, part.size());
    for (int step = 0; step < kSteps; ++step) {
      const std::vector<float> all = random_floats(1 + step, floats);
      const auto from = all.begin() + tensor.offset;
      plain.apply(part, {from, from + tensor.size()}, rate_of(step) * tensor.traits.lr_factor);
    }
    std::copy(part.begin(), part.end(), begin);
  }

  // Whole, and as a server's second shard beside the first, in pieces that end anywhere, past the caches.
  OptimizerState whole(section, layout.size(), 64, FactorRanges(layout, section, {0, layout.size()}));
  std::vector<float> parameters = random_floats(0, floats);
  for (int step = 0; step < kSteps; ++step) {
    whole.apply(parameters, random_floats(1 + step, floats), rate_of(step));
  }
  CHECK(same_bits(parameters, expected));
  constexpr std::int64_t kCut = 333;
  OptimizerState shard(section, layout.size() - kCut, 64,
                       FactorRanges(layout, section, {kCut, layout.size()}));
  std::vector<float> range = random_floats(0, floats);
  range.erase(range.begin(), range.begin() + kCut);
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<float> gradient = random_floats(1 + step, floats);
    std::vector<float> next(range.size());
    shard.begin_step(rate_of(step));
    for (std::size_t at = 0; at < range.size();) {
      const std::size_t n = std::min<std::size_t>(range.size() - at, 97);
      shard.apply(static_cast<std::int64_t>(at), std::span(range).subspan(at, n),
                  std::span(next).subspan(at, n), std::span(gradient).subspan(kCut + at, n),
                  Stores::kPastCache);
      at += n;
    }
    range = next;
  }
  CHECK(same_bits(range, {expected.begin() + kCut, expected.end()}));
}

TEST_CASE("decay_weights_spares_biases_and_norms_and_a_buffer_has_none") {
  OptimizerSection section;
  section.weight_decay = 0.5;
  section.decay = TensorsOf::kWeights;
  Layout layout;
  REQUIRE(layout.add("fc.weight", {1}));
  REQUIRE(layout.add("fc.bias", {1}));
  REQUIRE(layout.add("bn.scale", {1}, {.role = TensorRole::kNorm}));
  REQUIRE(layout.add("bn.mean", {1}, {.role = TensorRole::kBuffer, .lr_factor = 0.0}));
  const auto stepped = [&] {
    OptimizerState state(section, 4, 4, FactorRanges(layout, section, {0, 4}));
    std::vector<float> parameters{8, 8, 8, 8};
    state.apply(parameters, std::vector<float>{2, 2, 2, 2}, 0.5);
    return parameters;
  };
  CHECK(stepped() == std::vector<float>{5, 7, 7, 8});  // 8 - 0.5 (2 + 0.5 x 8)
  section.decay = TensorsOf::kAll;
  CHECK(stepped() == std::vector<float>{5, 5, 5, 8});
  section.weight_decay = 0.0;
  CHECK(stepped() == std::vector<float>{7, 7, 7, 8});
}

TEST_CASE("a_buffer_goes_its_part_of_the_way_to_what_was_measured_whatever_the_rate_and_the_kind") {
  Layout layout;
  REQUIRE(layout.add("fc.weight", {1}));
  REQUIRE(layout.add("bn.mean", {2}, {.role = TensorRole::kBuffer, .lr_factor = 0.25}));
  OptimizerSection section;
  section.kind = GENERATE(OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kAdam,
                          OptimizerKind::kLars, OptimizerKind::kLamb);
  section.weight_decay = 0.5;
  OptimizerState state(section, 3, 2, FactorRanges(layout, section, {0, 3}));
  std::vector<float> parameters{8, 8, 4};
  for (int i = 0; i < 2; ++i) state.apply(parameters, std::vector<float>{0, 0, 8}, i == 0 ? 0.0 : 0.125);
  CHECK(parameters[1] == 4.5F);   // 8, 6, 4.5
  CHECK(parameters[2] == 5.75F);  // 4, 5, 5.75
  section.of_deltas = true;       // what an inner optimizer has come to
  OptimizerState outer(section, 3, 2, FactorRanges(layout, section, {0, 3}));
  outer.apply(parameters, std::vector<float>{0, 1, 2}, 0.5);
  CHECK(std::vector<float>(parameters.begin() + 1, parameters.end()) == std::vector<float>{1, 2});
}

// Worked example: two tensors, of which nobody had a gradient for the second.
TEST_CASE("a_tensor_that_may_be_unused_stays_with_its_state_where_its_gradient_is_minus_zero_all_over") {
  Layout layout;
  REQUIRE(layout.add("used", {2}, {.may_be_unused = true}));
  REQUIRE(layout.add("unused", {3}, {.may_be_unused = true}));
  for (const OptimizerSection& settings : all_optimizers()) {
    const auto made = [&] { return OptimizerState(settings, 5, 2, FactorRanges(layout, settings, {0, 5})); };
    OptimizerState state = made();
    std::vector<float> parameters = {1, 2, 3, 4, 5};
    state.apply(parameters, std::vector<float>{1, 1, 1, 1, 1}, 0.1);
    const std::vector<float> before = parameters;
    const OptimizerImage image = state.image();
    state.apply(parameters, std::vector<float>{1, 1, -0.0F, -0.0F, -0.0F}, 0.1);
    CHECK(parameters[0] != before[0]);
    CHECK(std::vector(parameters.begin() + 2, parameters.end()) ==
          std::vector(before.begin() + 2, before.end()));
    // The next gradient meets the state that the first has left: as if there had been none between.
    std::vector<float> after = parameters;
    state.apply(after, std::vector<float>{1, 1, 1, 1, 1}, 0.1);
    if (settings.kind == OptimizerKind::kAdam) continue;  // its t has gone on
    OptimizerState twin = made();
    REQUIRE(twin.restore(image));
    std::vector<float> expected = before;
    twin.apply(expected, std::vector<float>{1, 1, 1, 1, 1}, 0.1);
    CHECK(std::vector(after.begin() + 2, after.end()) == std::vector(expected.begin() + 2, expected.end()));
  }
  // A zero is a gradient, and a tensor of which there is always a gradient takes one.
  OptimizerSection decaying;
  decaying.weight_decay = 0.5;
  for (const auto& [may_be_unused, gradient] : {std::pair{true, 0.0F}, {false, -0.0F}}) {
    Layout one;
    REQUIRE(one.add("w", {1}, {.may_be_unused = may_be_unused}));
    OptimizerState state(decaying, 1, 1, FactorRanges(one, decaying, {0, 1}));
    std::vector<float> parameters = {1};
    state.apply(parameters, std::vector<float>{gradient}, 0.5);
    CHECK(parameters[0] == 0.75F);
  }
}

TEST_CASE("deltas_that_were_made_with_the_factors_are_applied_as_they_are_and_frozen_tensors_stay") {
  OptimizerSection outer;
  outer.of_deltas = true;
  Layout layout;
  REQUIRE(layout.add("fc.weight", {1}, {.lr_factor = 3.0, .decay_factor = 5.0}));
  REQUIRE(layout.add("fc.bias", {1}, {.role = TensorRole::kBias, .lr_factor = 0.0}));
  for (const double decay : {0.0, 0.5}) {
    outer.weight_decay = decay;
    OptimizerState state(outer, 2, 2, FactorRanges(layout, outer, {0, 2}));
    std::vector<float> parameters{8, 8};
    state.apply(parameters, std::vector<float>{2, 2}, 0.5);
    CHECK(parameters == std::vector<float>{decay == 0.0 ? 7.0F : 5.0F, 8.0F});
  }
}

TEST_CASE("where_every_factor_is_one_there_are_no_ranges") {
  OptimizerSection section;
  section.weight_decay = 0.5;
  Layout layout;
  REQUIRE((layout.add("fc.weight", {4}).is_ok() && layout.add("fc.bias", {2}).is_ok()));
  CHECK(FactorRanges(layout, section, {0, 6}).all_are_one());
  section.decay = TensorsOf::kWeights;
  CHECK_FALSE(FactorRanges(layout, section, {0, 6}).all_are_one());
  CHECK(FactorRanges(layout, section, {0, 4}).all_are_one());  // the bias is another shard's
  section.weight_decay = 0.0;
  CHECK(FactorRanges(layout, section, {0, 6}).all_are_one());
}

TEST_CASE("a_gradient_that_is_not_finite_is_seen_where_nothing_is_trained") {
  Layout layout;
  REQUIRE(layout.add("frozen", {2}, {.lr_factor = 0.0}));
  REQUIRE(layout.add("trained", {2}));
  const OptimizerSection section;
  const OptimizerState state(section, 4, 4, FactorRanges(layout, section, {0, 4}));
  const auto seen = [&](std::vector<float> gradient) {
    std::vector<float> parameters{1, 2, 3, 4};
    return state.apply_stateless_and_check(0, parameters, parameters, gradient, 0.5, Stores::kCached);
  };
  CHECK_FALSE(seen({1, 1, 1, 1}));
  CHECK(seen({1, INFINITY, 1, 1}));
  CHECK(seen({1, 1, 1, NAN}));
}

TEST_CASE("an_image_of_another_optimizer_or_size_is_refused") {
  OptimizerSection adam, sgd;
  adam.kind = OptimizerKind::kAdam;
  sgd.kind = OptimizerKind::kSgd;
  OptimizerState state(adam, 5, 2);
  CHECK(state.restore(OptimizerState(sgd, 5, 2).image()).code() == StatusCode::kInvalidArgument);
  CHECK(state.restore(OptimizerState(adam, 6, 2).image()).code() == StatusCode::kInvalidArgument);
  CHECK(state.restore(OptimizerState(adam, 5, 2).image()).is_ok());
}
