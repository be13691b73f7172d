// Optimizers in numbers that are worked out by hand or in double precision.
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "common/params/optimizer.h"

using namespace paceline;

TEST_CASE("sgd_and_momentum_follow_their_formulas") {
  OptimizerSection section;
  section.kind = OptimizerKind::kMomentum;
  section.momentum = 0.5;
  std::vector<float> p = {1.0F};
  OptimizerState state(section, 1);
  state.apply(p, std::vector<float>{2.0F}, 0.125);  // u = 2:         1 - 0.25
  CHECK(p[0] == 0.75F);
  state.apply(p, std::vector<float>{2.0F}, 0.125);  // u = 0.5*2 + 2: 0.75 - 0.375
  CHECK(p[0] == 0.375F);

  section.nesterov = true;
  p = {1.0F};
  OptimizerState nesterov(section, 1);
  nesterov.apply(p, std::vector<float>{2.0F}, 0.125);  // g + mu u = 3
  CHECK(p[0] == 0.625F);
}

TEST_CASE("the_first_adam_step_is_the_learning_rate_whatever_the_gradient") {
  // Bias correction makes m/(1-b1) = g and sqrt(v/(1-b2)) = |g|: Kingma and Ba, section 2.1.
  OptimizerSection section;
  section.kind = OptimizerKind::kAdam;
  std::vector<float> p = {1.0F, 1.0F, 1.0F};
  OptimizerState state(section, 3);
  state.apply(p, std::vector<float>{1e-3F, -5.0F, 0.0F}, 0.001);
  CHECK(p[0] == Approx(0.999).epsilon(1e-6));
  CHECK(p[1] == Approx(1.001).epsilon(1e-6));
  CHECK(p[2] == 1.0F);
}

TEST_CASE("adam_over_ten_steps_matches_the_double_precision_formula") {
  OptimizerSection section;
  section.kind = OptimizerKind::kAdam;
  std::vector<float> p = {0.5F};
  OptimizerState state(section, 1);
  double x = 0.5, m = 0, v = 0;
  for (int t = 1; t <= 10; ++t) {
    const float g = 0.3F * static_cast<float>(t) - 1.0F;
    state.apply(p, std::vector<float>{g}, 0.01);
    m = 0.9 * m + 0.1 * static_cast<double>(g);
    v = 0.999 * v + 0.001 * static_cast<double>(g) * static_cast<double>(g);
    x -= 0.01 * (m / (1 - std::pow(0.9, t))) / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
  }
  CHECK(state.steps() == 10);
  CHECK(static_cast<double>(p[0]) == Approx(x).epsilon(1e-6));  // ten steps of float32 rounding, 6e-8 each
}

// Caffe's solvers in double, written from solvers/*.cpp: history and step of each iteration, with a rate that
// changes and a decay that is coupled.
TEST_CASE("caffes_solvers_over_ten_iterations_with_a_changing_rate") {
  struct Case {
    OptimizerKind kind;
    bool nesterov;
    double momentum, rho, delta;
  };
  const Case c = GENERATE(
      Case{OptimizerKind::kMomentum, false, 0.9, 0, 0}, Case{OptimizerKind::kMomentum, true, 0.9, 0, 0},
      Case{OptimizerKind::kAdam, false, 0.9, 0, 1e-2}, Case{OptimizerKind::kAdagrad, false, 0, 0, 1e-3},
      Case{OptimizerKind::kRmsprop, false, 0, 0.95, 1e-3},
      Case{OptimizerKind::kAdadelta, false, 0, 0.9, 1e-3});
  OptimizerSection section;
  section.kind = c.kind;
  section.nesterov = c.nesterov;
  section.momentum_form = MomentumForm::kInside;
  section.momentum = section.beta1 = c.momentum;
  section.rho = c.rho;
  section.epsilon = c.delta;
  section.epsilon_hat = true;
  section.weight_decay = 0.01;
  OptimizerState state(section, 1);
  std::vector<float> p = {0.5F};
  double w = 0.5;
  double history = 0.0;
  double second = 0.0;
  for (int iteration = 0; iteration < 10; ++iteration) {
    const double rate = 0.05 / (1 + iteration);
    const float gradient = 0.3F * static_cast<float>(iteration) - 1.0F;
    state.apply(p, std::vector<float>{gradient}, rate);
    const double g = static_cast<double>(gradient) + 0.01 * w;
    const double before = history;
    double step = 0.0;
    switch (c.kind) {
      case OptimizerKind::kMomentum:
        history = c.momentum * history + rate * g;
        step = c.nesterov ? (1 + c.momentum) * history - c.momentum * before : history;
        break;
      case OptimizerKind::kAdam: {
        const int t = iteration + 1;
        history = 0.9 * history + 0.1 * g;
        second = 0.999 * second + 0.001 * g * g;
        step = rate * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t)) * history /
               (std::sqrt(second) + c.delta);
        break;
      }
      case OptimizerKind::kAdagrad:
        history += g * g;
        step = rate * g / (std::sqrt(history) + c.delta);
        break;
      case OptimizerKind::kRmsprop:
        history = c.rho * history + (1 - c.rho) * g * g;
        step = rate * g / (std::sqrt(history) + c.delta);
        break;
      case OptimizerKind::kAdadelta: {
        history = c.rho * history + (1 - c.rho) * g * g;
        const double update = g * std::sqrt((second + c.delta) / (history + c.delta));
        second = c.rho * second + (1 - c.rho) * update * update;
        step = rate * update;
        break;
      }
      default:
        break;
    }
    w -= step;
  }
  // Ten steps of float32 rounding, 6e-8 each.
  CHECK(static_cast<double>(p[0]) == Approx(w).epsilon(2e-6));
}

// Of a unit that never fires again the gradients are 0, and each state decays: to 0, not to the least
// denormal number, which times 0.9 rounds to itself.
TEST_CASE("a_state_that_only_decays_comes_to_zero") {
  const OptimizerKind kind = GENERATE(OptimizerKind::kMomentum, OptimizerKind::kAdam);
  OptimizerSection settings;
  settings.kind = kind;
  settings.momentum = 0.9;
  settings.beta2 = 0.9;
  OptimizerState state(settings, 37);
  std::vector<float> parameters(37, 1.0F);
  state.apply(parameters, std::vector<float>(37, 0.5F), 1e-3);
  const std::vector<float> nothing(37, 0.0F);
  for (int step = 0; step < 1200; ++step) state.apply(parameters, nothing, 1e-3);
  const OptimizerImage image = state.image();
  for (const BlockRange* const part : {&image.first, &image.second}) {
    for (std::int64_t i = 0; i < part->block_count(); ++i) {
      for (const float value : part->block(i)) CHECK(value == 0.0F);
    }
  }
}

TEST_CASE("decay_of_the_absolute_value_pulls_all_parameters_alike_and_leaves_zero_alone") {
  OptimizerSection section;
  section.weight_decay = 0.5;
  section.decay_norm = DecayNorm::kL1;
  std::vector<float> p = {2.0F, -0.25F, 0.0F};
  OptimizerState(section, 3).apply(p, std::vector<float>{0.0F, 0.0F, 0.0F}, 0.1);
  CHECK((p[0] == 1.95F && p[1] == -0.2F && p[2] == 0.0F));
}

TEST_CASE("decoupled_decay_shrinks_the_parameter_and_leaves_the_state_alone") {
  OptimizerSection section;
  section.kind = OptimizerKind::kAdam;
  section.weight_decay = 0.1;
  section.decoupled = true;
  std::vector<float> p = {2.0F};
  OptimizerState decoupled(section, 1);
  decoupled.apply(p, std::vector<float>{0.0F}, 0.5);
  CHECK(p[0] == Approx(1.9));  // 2 - 0.5 * 0.1 * 2, and no step without a gradient

  section.decoupled = false;
  p = {2.0F};
  OptimizerState coupled(section, 1);
  coupled.apply(p, std::vector<float>{0.0F}, 0.5);
  CHECK(p[0] == Approx(1.5));  // the decay is a gradient to Adam, whose first step is the learning rate
}
