// A loop of a user's own and the training thread take turns.
#include "worker/foreign/foreign_loop.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <future>
#include <span>
#include <thread>
#include <vector>

namespace paceline {
namespace {

using namespace std::chrono_literals;
using Waited = ForeignLoop::Waited;

Step at_clock(std::int64_t clock) {
  Step step;
  step.clock = Clock(clock);
  return step;
}

// A training thread that is in compute() of one round after another, until the loop gives up.
struct Trainer {
  explicit Trainer(ForeignLoop& loop)
      : ended(std::async(std::launch::async, [&loop, this] {
          std::vector<float> parameters = {1.0F, 2.0F};
          std::vector<float> gradient(2);
          for (std::int64_t clock = 0;; ++clock) {
            if (Status loaded = loop.load(); !loaded.is_ok()) return loaded;
            const auto computed = loop.compute(at_clock(clock), parameters, gradient, [&](std::int64_t n) {
              final = n;
              seen = gradient;
            });
            if (!computed.is_ok()) return computed.status();
            samples += computed->samples;
            for (std::size_t i = 0; i < gradient.size(); ++i) parameters[i] += gradient[i];
          }
        })) {}

  std::int64_t final = -1;
  std::vector<float> seen;  // the gradient, when it was final
  std::int64_t samples = 0;
  std::future<Status> ended;
};

TEST_CASE("each round of a loop is a step of the training thread, with what the one before made of it") {
  ForeignLoop loop;
  Trainer trainer(loop);
  ForeignLoop::Round round;
  for (std::int64_t clock = 0; clock < 100; ++clock) {
    REQUIRE(loop.begin(std::nullopt, round) == Waited::kRound);
    CHECK(loop.under_way());
    CHECK(round.step.clock == Clock(clock));
    CHECK(round.parameters[1] == 2.0F + static_cast<float>(clock));
    round.gradient[0] = 0.0F;
    round.gradient[1] = 1.0F;
    loop.final_from(1);
    loop.finish({0.5, 1, 3});
    CHECK_FALSE(loop.under_way());
  }
  loop.give_up(aborted("enough"));
  CHECK(trainer.ended.get().message() == "enough");
  CHECK(trainer.samples == 300);
  CHECK(trainer.final == 1);
}

TEST_CASE("what a loop lends is in the gradient before it is final, without a -0.0") {
  ForeignLoop loop;
  Trainer trainer(loop);
  ForeignLoop::Round round;
  const std::vector<float> lent = {-0.0F, 5.0F};
  REQUIRE(loop.begin(std::nullopt, round) == Waited::kRound);
  loop.copy(1, std::span(lent).subspan(1));
  loop.copy(0, std::span(lent).first(1));
  loop.final_from(0);
  loop.finish({0.5, 1, 3});
  REQUIRE(loop.begin(std::nullopt, round) == Waited::kRound);
  CHECK(trainer.seen == std::vector<float>{0.0F, 5.0F});
  CHECK_FALSE(std::signbit(trainer.seen[0]));
  CHECK(round.parameters[1] == 7.0F);
  loop.give_up(aborted("enough"));
}

TEST_CASE("of a round that is given up nothing counts, and no other one begins") {
  ForeignLoop loop;
  Trainer trainer(loop);
  ForeignLoop::Round round;
  REQUIRE(loop.begin(std::nullopt, round) == Waited::kRound);
  loop.give_up(aborted("ValueError: x"));
  loop.give_up(aborted("later"));
  CHECK(trainer.ended.get().message() == "ValueError: x");
  CHECK(trainer.samples == 0);
  CHECK(loop.gave_up());
}

TEST_CASE("a loop that waits hears of the node's end, or that there is nothing yet") {
  ForeignLoop loop;
  ForeignLoop::Round round;
  CHECK(loop.begin(0ns, round) == Waited::kTimedOut);
  CHECK_FALSE(loop.await_end(0ns).has_value());
  std::thread node([&loop] { loop.node_ended(unavailable("server lost")); });
  CHECK(loop.begin(std::nullopt, round) == Waited::kOver);
  node.join();
  CHECK(loop.await_end(std::nullopt)->message() == "server lost");
  CHECK(loop.ended()->code() == StatusCode::kUnavailable);
}

TEST_CASE("a loop that never waits gets its round as well") {
  ForeignLoop loop;
  Trainer trainer(loop);
  ForeignLoop::Round round;
  auto come = Waited::kTimedOut;
  while (come == Waited::kTimedOut) come = loop.begin(0ns, round);
  CHECK(come == Waited::kRound);
  loop.give_up(aborted("enough"));
}

TEST_CASE("initial values are given once; without a measure a model has a metric of no samples") {
  ForeignLoop loop;
  Layout layout;
  REQUIRE(layout.add("w", {2}).is_ok());
  ForeignTasks tasks(loop, layout, {3.0F, 4.0F}, nullptr);
  std::vector<float> values(2);
  tasks.initialize(values);
  CHECK(values == std::vector<float>{3.0F, 4.0F});
  tasks.initialize(values);
  CHECK(values[0] != values[0]);  // NaN
  CHECK((*tasks.make_evaluator())->evaluate(values)->samples == 0);
}

}  // namespace
}  // namespace paceline
