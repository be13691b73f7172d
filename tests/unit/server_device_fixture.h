// What the tests of a server's GPU share, on a real one and on the fake one.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "server/cuda/open_gpu.h"
#include "tests/unit/store_fixture.h"

namespace paceline::server {

inline std::shared_ptr<ServerDevice> server_gpu() {
  auto opened = cuda::open_gpu({{}, ShardId(0)});
  INFO(opened.status().message());
  REQUIRE(opened.is_ok());
  return std::move(opened).value();
}

inline bool same_bits(const BlockRange& a, const BlockRange& b) {
  const std::vector<float> x = values_of(a);
  const std::vector<float> y = values_of(b);
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
}

// One way of applying, with a decision's gradients of two workers.
struct DeviceWay {
  OptimizerKind kind = OptimizerKind::kSgd;
  CombineMode combine = CombineMode::kEach;
};
inline const std::vector<DeviceWay> kDeviceWays = {
    {OptimizerKind::kSgd, CombineMode::kEach},      {OptimizerKind::kSgd, CombineMode::kMean},
    {OptimizerKind::kMomentum, CombineMode::kEach}, {OptimizerKind::kMomentum, CombineMode::kMean},
    {OptimizerKind::kAdam, CombineMode::kEach},     {OptimizerKind::kAdam, CombineMode::kMean}};

inline constexpr Cluster kDevicePair{2, 1};

inline ShardSettings settings_on(std::shared_ptr<ServerDevice> device, const DeviceWay& way,
                                 std::int64_t block_floats) {
  ShardSettings settings = settings_of(kDevicePair, block_floats);
  settings.combine = way.combine;
  settings.optimizer.kind = way.kind;
  settings.optimizer.nesterov = way.kind == OptimizerKind::kMomentum;
  settings.optimizer.weight_decay = 0.01;
  settings.optimizer.decoupled = way.kind == OptimizerKind::kAdam;
  settings.optimizer.staleness = StalenessScaling::kInverse;
  if (device != nullptr) settings.memory = device->page_locked(nullptr);
  settings.device = std::move(device);
  return settings;
}

// Values that are a function of the index and `salt` alone.
inline std::vector<float> wave(std::int64_t floats, float salt) {
  std::vector<float> values(static_cast<std::size_t>(floats));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i % 4099) * salt);
  return values;
}

inline Shard beginning_shard(std::int64_t floats, ShardSettings settings, const Layout& layout) {
  Shard shard(ShardId(0), {0, floats}, layout, std::move(settings));
  REQUIRE(shard.initialize({0, true}, wave(floats, 0.7F)).is_ok());
  return shard;
}

inline Shard beginning_shard(std::int64_t floats, ShardSettings settings) {
  return beginning_shard(floats, std::move(settings), layout_of(floats));
}

// As many floats in tensors of which each is stepped in another way; at least eight.
inline Layout uneven_layout(std::int64_t floats) {
  Layout layout;
  REQUIRE(layout.add("usual", {floats / 3}));
  REQUIRE(layout.add("spared", {floats / 4}, {.decay_factor = 0.0}));
  REQUIRE(layout.add("frozen", {floats / 5}, {.lr_factor = 0.0}));
  REQUIRE(layout.add("slow", {floats - layout.size()}, {.lr_factor = 0.5, .decay_factor = 2.0}));
  return layout;
}

// How much of the last gradient of a decision is sent ahead of it, and of those before, unless it is nothing,
// all.
enum class Ahead { kNothing, kHalf, kAll };

// One clock of both workers: each gradient in two pieces, and the decision. Errors: the shard's.
inline Status train_clock(Shard& shard, const DeviceWay& way, std::int64_t clock, Ahead ahead) {
  const std::int64_t floats = shard.range().size();
  const std::int64_t half = floats / 2;
  const auto wanted = way.combine == CombineMode::kMean ? wire::Combine::kMean : wire::Combine::kEach;
  wire::ApplyDecision decision = decision_of(clock, {}, clock + 1, wanted);
  decision.learning_rate = 0.01;
  decision.revision_after = Revision(2 * (clock + 1));
  for (const WorkerId worker : {WorkerId(0, 0), WorkerId(1, 0)}) {
    const auto salt = static_cast<float>(clock + 2 * worker.node.value + 1);
    const std::vector<float> gradient = wave(floats, salt);
    const std::int64_t samples = 3 + worker.node.value;
    PACELINE_RETURN_IF_ERROR(
        shard.push(push_of(worker, clock, half, false), payload_of({gradient.begin() + half, gradient.end()}))
            .status());
    while (ahead != Ahead::kNothing && shard.prepare_next()) {
    }
    PACELINE_RETURN_IF_ERROR(shard
                                 .push(push_of(worker, clock, 0, true, samples),
                                       payload_of({gradient.begin(), gradient.begin() + half}))
                                 .status());
    while (ahead == Ahead::kAll && shard.prepare_next()) {
    }
    decision.contributions.push_back({worker, Clock(clock), samples, 2 * worker.node.value});
  }
  PACELINE_RETURN_IF_ERROR(shard.status());
  return shard.apply(decision);
}

}  // namespace paceline::server
