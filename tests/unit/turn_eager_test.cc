// A shard of a run that turns from versioned to eager: what it predicts, and what it has room for.
#include <catch2/catch.hpp>
#include <vector>

#include "server/store/shard_settings.h"
#include "tests/unit/store_fixture.h"

namespace paceline::server {
namespace {

TEST_CASE("a shard that averages turns eager with the first decision of that kind, and predicts the next") {
  const WorkerId averaged[] = {WorkerId(0, 0), WorkerId(1, 0)};
  ShardSettings settings = settings_of(Cluster{2, 1}, 4);
  settings.apply = ApplyMode::kVersioned;
  settings.combine = CombineMode::kMean;
  settings.turns_eager = true;
  settings.rate_scale = 2.0;
  settings.optimizer.lr = 0.5;
  Shard shard = ready_shard(Cluster{2, 1}, 4, 1.0F, std::move(settings));
  const auto arrive = [&](WorkerId worker, std::int64_t clock, float value) {
    REQUIRE(shard.push(push_of(worker, clock), payload_of(std::vector<float>(4, value))).is_ok());
    while (shard.prepare_next()) {
    }
  };
  arrive(averaged[0], 0, 1.0F);
  arrive(averaged[1], 0, 3.0F);
  auto mean =
      decision_of(0, {{averaged[0], Clock(0), 1}, {averaged[1], Clock(0), 1}}, 1, wire::Combine::kMean);
  mean.rate_scale = 2.0;
  mean.learning_rate = 1.0;
  REQUIRE(shard.apply(mean).is_ok());
  CHECK(values_of(shard.now().blocks) == std::vector<float>(4, -1.0F));  // 1 - 1 x 2
  CHECK(shard.next().committed() == 1);

  const auto eager = [&](std::int64_t sequence, WorkerId worker, std::int64_t clock) {
    auto decision = decision_of(sequence, {{worker, Clock(clock), 1}}, 1);
    decision.apply = ApplyMode::kEager;
    decision.learning_rate = 0.5;
    decision.revision_after = Revision(100 + sequence);
    REQUIRE(shard.apply(decision).is_ok());
  };
  arrive(averaged[1], 1, 2.0F);
  eager(1, averaged[1], 1);
  CHECK(values_of(shard.now().blocks) == std::vector<float>(4, -2.0F));
  CHECK(shard.next().committed() == 1);  // a mean of both had been predicted
  arrive(averaged[1], 2, 2.0F);
  eager(2, averaged[1], 2);
  CHECK(values_of(shard.now().blocks) == std::vector<float>(4, -3.0F));
  CHECK(shard.next().committed() == 2);
}

TEST_CASE("a run that turns eager has the larger bounds of both ways of applying") {
  RunConfig config;
  config.sync.policy = PolicyKind::kSwitch;
  config.sync.stages.resize(2);
  config.sync.stages[0].policy = PolicyKind::kSsp;
  config.sync.stages[0].threshold = 10;
  config.sync.stages[0].lr_scale = 4.0;
  config.sync.stages[0].until = {StageEnd::kVersion, 2};
  config.sync.stages[1].policy = PolicyKind::kAsp;
  const ShardSettings settings = shard_settings(config);
  CHECK(settings.turns_eager);
  CHECK(settings.gradients_max == 12);
  CHECK(settings.missing_max == 12);
  CHECK(settings.rate_scale == 4.0);
  CHECK(settings.local_updates);
  config.sync.stages[0].policy = PolicyKind::kBsp;
  CHECK(shard_settings(config).gradients_max == 2);
  CHECK(shard_settings(config).missing_max == 8);
}

}  // namespace
}  // namespace paceline::server
