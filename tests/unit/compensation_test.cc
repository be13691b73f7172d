// Delay compensation: the formulas by hand, and what is kept of which worker (replay_test has whole runs).
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "common/params/delay_compensation.h"
#include "server/store/backups.h"
#include "tests/unit/store_fixture.h"

namespace paceline::server {
namespace {

using Floats = std::vector<float>;

const WorkerId kA(0, 0), kB(1, 0);
const Cluster kPair{2, 1};

Floats compensated(DelayCompensation& compensation, const Floats& gradient, const Floats& now,
                   const Floats& backup) {
  Floats out(gradient.size());
  compensation.apply(0, gradient, now, backup, out);
  return out;
}

// f(w) = 2 w^2 in six equal parameters, from 8: the gradient is 4 w. Rate 1/8 halves w, were nothing stale.
Shard quadratic(double lambda, CompensationKind kind = CompensationKind::kConstant) {
  ShardSettings settings = settings_of(kPair, 4);
  settings.apply = ApplyMode::kEager;
  settings.optimizer.delay_compensation = {kind, lambda, 0.95};
  return ready_shard(kPair, 6, 8.0F, std::move(settings));
}

Status push(Shard& shard, WorkerId worker, std::int64_t clock, std::int64_t computed, float gradient) {
  wire::Push push = push_of(worker, clock);
  push.computed_revision = Revision(computed);
  return shard.push(push, payload_of(Floats(6, gradient))).status();
}

float decide(Shard& shard, std::int64_t sequence, WorkerId worker, std::int64_t clock) {
  auto decision = decision_of(sequence, {{worker, Clock(clock), 1}}, 0);
  decision.revision_after = Revision(sequence + 1);
  decision.learning_rate = 0.125;
  REQUIRE(shard.apply(decision).is_ok());
  const Floats now = values_of(shard.now().blocks);
  CHECK(now == Floats(6, now[0]));
  return now[0];
}

}  // namespace

TEST_CASE("a constant lambda adds lambda g g times the way that the parameters went") {
  DelayCompensation compensation({CompensationKind::kConstant, 0.5, 0.95}, 3, 2);
  CHECK(compensated(compensation, {2, -2, 2}, {1.5F, 1.5F, 1}, {1, 1, 1}) == Floats{3, -1, 2});
}

TEST_CASE("what was measured for a buffer is not compensated") {
  Layout layout;
  REQUIRE(layout.add("w", {1}).is_ok());
  REQUIRE(layout.add("mean", {2}, {.role = TensorRole::kBuffer, .lr_factor = 0.25}).is_ok());
  const auto kind = GENERATE(CompensationKind::kConstant, CompensationKind::kAdaptive);
  DelayCompensation compensation({kind, 0.5, 0.0}, 3, 2, FactorRanges(layout, {}, {0, 3}));
  const Floats out = compensated(compensation, {2, 2, 2}, {1.5F, 1.5F, 1.5F}, {1, 1, 1});
  CHECK(out[0] == Approx(kind == CompensationKind::kConstant ? 3.0 : 2.5));
  CHECK(Floats(out.begin() + 1, out.end()) == Floats{2, 2});
}

TEST_CASE("what has no gradient is not compensated, and has none after it") {
  Layout layout;
  REQUIRE(layout.add("unused", {2}, {.may_be_unused = true}).is_ok());
  const auto kind = GENERATE(CompensationKind::kConstant, CompensationKind::kAdaptive);
  DelayCompensation compensation({kind, 0.5, 0.5}, 2, 1, FactorRanges(layout, {}, {0, 2}));
  for (const float value : compensated(compensation, {-0.0F, -0.0F}, {1.5F, 0.5F}, {1, 1})) {
    CHECK((value == 0.0F && std::signbit(value)));
  }
}

TEST_CASE("an adaptive lambda is divided by the root of the mean squared gradient so far") {
  DelayCompensation compensation({CompensationKind::kAdaptive, 2.0, 0.75}, 2, 1);
  // m = 0.25 g^2 = 1 and 4, then 0.75 m + 0.25 g^2 = 1.75 and 7
  const Floats first = compensated(compensation, {2, 4}, {2, 2}, {1, 1});
  CHECK(first[0] == Approx(2 + 2 / std::sqrt(1.0) * 4));
  CHECK(first[1] == Approx(4 + 2 / std::sqrt(4.0) * 16));
  const Floats second = compensated(compensation, {2, 4}, {2, 2}, {1, 1});
  CHECK(second[0] == Approx(2 + 2 / std::sqrt(1.75) * 4));
  CHECK(second[1] == Approx(4 + 2 / std::sqrt(7.0) * 16));
}

TEST_CASE(
    "a gradient whose square is beyond a float is compensated, and stays finite where nothing is stale") {
  constexpr float kLarge = 2e19F;
  for (const double lambda : {0.0, 0.04}) {
    DelayCompensation constant({CompensationKind::kConstant, lambda, 0.95}, 1, 1);
    CHECK(compensated(constant, {kLarge}, {1}, {1}) == Floats{kLarge});
  }
  DelayCompensation adaptive({CompensationKind::kAdaptive, 2.0, 0.95}, 1, 1);
  CHECK(compensated(adaptive, {kLarge}, {3}, {1}) == Floats{kLarge});
}

TEST_CASE("an element that never had a gradient stays as it is") {
  DelayCompensation compensation({CompensationKind::kAdaptive, 2.0, 0.95}, 1, 1);
  CHECK(compensated(compensation, {0}, {5}, {1}) == Floats{0});
}

TEST_CASE("of a quadratic, the stale gradient is corrected by what the other one did") {
  // Both compute with 8: gradient 32. A's takes w to 4. B's becomes 32 + lambda 32^2 (4 - 8).
  const auto [lambda, expected] = GENERATE(std::pair(0.0, 0.0F), std::pair(1.0 / 256, 2.0F));
  Shard shard = quadratic(lambda);
  shard.sent(NodeId(0), shard.now());
  shard.sent(NodeId(1), shard.now());
  REQUIRE(push(shard, kA, 0, 0, 32).is_ok());
  REQUIRE(push(shard, kB, 0, 0, 32).is_ok());
  CHECK(decide(shard, 0, kA, 0) == 4.0F);
  CHECK(decide(shard, 1, kB, 0) == expected);  // 4 - (32 - 16) / 8: what a fresh gradient of 16 would do
}

TEST_CASE("a worker's own gradients were in what it computed with, whatever it was sent") {
  Shard shard = quadratic(1.0 / 256);
  shard.sent(NodeId(0), shard.now());
  REQUIRE(push(shard, kA, 0, 0, 32).is_ok());
  CHECK(decide(shard, 0, kA, 0) == 4.0F);
  // It goes on with revision 0 and its own step, which is 4: nothing has changed since.
  REQUIRE(push(shard, kA, 1, 0, 16).is_ok());
  CHECK(decide(shard, 1, kA, 1) == 2.0F);
}

TEST_CASE("a push computed with a state that its worker was not sent is refused") {
  Shard shard = quadratic(1.0);
  CHECK(push(shard, kA, 0, 0, 1).message().find("computed with revision 0, which shard 0 has not sent it") !=
        std::string::npos);
  shard.sent(NodeId(0), shard.now());
  CHECK(push(shard, kA, 0, 1, 1).code() == StatusCode::kFailedPrecondition);
  CHECK(push(shard, kA, 0, 0, 1).is_ok());
  CHECK(push(shard, kB, 0, 0, 1).code() == StatusCode::kFailedPrecondition);
}

TEST_CASE("a worker that is sent states and contributes nothing keeps few of them, and those it needs") {
  Shard shard = quadratic(1.0);
  shard.sent(NodeId(1), shard.now());
  REQUIRE(push(shard, kB, 0, 0, 1).is_ok());
  Snapshot state = shard.now();
  for (std::int64_t revision = 1; revision <= 100; ++revision) {
    state.revision = Revision(revision);
    shard.sent(NodeId(1), state);
  }
  CHECK(shard.backups() == 1 + Backups::kNotPushedMax);
  decide(shard, 0, kB, 0);  // revision 0 is still there
}

TEST_CASE(
    "what a gradient that is held was computed with is kept, and goes once it is applied and one after it") {
  Shard shard = quadratic(1.0 / 256);
  Snapshot state = shard.now();
  for (std::int64_t revision = 0; revision < 100; ++revision) {
    state.revision = Revision(revision);
    shard.sent(NodeId(1), state);
    if (revision < 3) REQUIRE(push(shard, kB, revision, revision, 1).is_ok());
  }
  for (std::int64_t clock = 0; clock < 3; ++clock) {
    CHECK(shard.backups() ==
          static_cast<std::size_t>(3 - std::max<std::int64_t>(0, clock - 1) + Backups::kNotPushedMax));
    decide(shard, clock, kB, clock);
  }
  REQUIRE(push(shard, kB, 3, 99, 1).is_ok());
  decide(shard, 3, kB, 3);
  CHECK(shard.backups() == 1);
}

TEST_CASE("a worker that goes back to an older state is taken at its word") {
  Shard shard = quadratic(0.0);
  shard.sent(NodeId(0), shard.now());
  REQUIRE(push(shard, kB, 0, 0, 8).code() == StatusCode::kFailedPrecondition);
  shard.sent(NodeId(1), shard.now());
  REQUIRE(push(shard, kB, 0, 0, 8).is_ok());
  CHECK(decide(shard, 0, kB, 0) == 7.0F);
  shard.sent(NodeId(0), shard.now());
  REQUIRE(push(shard, kA, 0, 1, 8).is_ok());
  REQUIRE(push(shard, kA, 1, 0, 8).is_ok());
  CHECK(decide(shard, 1, kA, 0) == 6.0F);
  CHECK(decide(shard, 2, kA, 1) == 5.0F);
}

}  // namespace paceline::server
