#include "tests/bench/server_apply.h"

#include <algorithm>
#include <array>
#include <functional>
#include <memory_resource>
#include <ostream>
#include <span>
#include <utility>

#include "common/config/names.h"
#include "common/ticks.h"
#include "server/store/shard.h"
#include "tests/bench/median.h"

namespace paceline::bench {
namespace {

using server::DeviceVector;
using server::ServerDevice;
using server::Shard;
using server::ShardDevice;
using server::ShardSettings;
using server::Snapshot;

double ms_since(Ticks begin) { return to_seconds(steady_now() - begin) * 1e3; }

ShardSettings settings_of(OptimizerKind kind, std::shared_ptr<ServerDevice> device) {
  RunConfig config;
  config.sync.policy = PolicyKind::kAsp;
  config.sync.apply = ApplyMode::kEager;
  config.sync.combine = CombineMode::kEach;
  config.train.optimizer.kind = kind;
  ShardSettings settings = server::shard_settings(config);
  if (device != nullptr) settings.memory = device->page_locked(nullptr);
  settings.device = std::move(device);
  return settings;
}

// A shard, its decisions so far, and what they took.
struct Applying {
  Shard shard;
  std::int64_t clock = 0;

  Applying(OptimizerKind kind, std::int64_t floats, std::shared_ptr<ServerDevice> device)
      : shard(ShardId(0), {0, floats}, layout_of(floats), settings_of(kind, std::move(device))) {}

  static Layout layout_of(std::int64_t floats) {
    Layout layout;
    PACELINE_ASSERT(layout.add("all", {floats}).is_ok(), "one tensor");
    return layout;
  }

  Status begin() {
    const std::vector<float> zeros(static_cast<std::size_t>(shard.range().size()));
    PACELINE_RETURN_IF_ERROR(shard.initialize({0, true}, zeros));
    return shard.status();
  }

  // The milliseconds from the decision until the new parameters are there.
  Result<double> decide(std::span<const float> gradient, bool ahead) {
    const Snapshot read = shard.now();
    wire::Push push;
    push.clock = Clock(clock);
    push.last = true;
    push.samples = 1;
    const auto* const bytes = reinterpret_cast<const std::byte*>(gradient.data());
    const wire::Payload payload{std::shared_ptr<const void>(bytes, [](const void*) {}), bytes,
                                gradient.size_bytes()};
    PACELINE_RETURN_IF_ERROR(shard.push(push, payload).status());
    while (ahead && shard.prepare_next()) {
    }
    shard.settle();
    wire::ApplyDecision decision;
    decision.sequence = clock++;
    decision.contributions = {{push.worker, push.clock, 1}};
    decision.learning_rate = OptimizerSection().lr;
    decision.version_after = Version(clock);
    decision.revision_after = Revision(clock);
    const Ticks decided = steady_now();
    PACELINE_RETURN_IF_ERROR(shard.apply(decision));
    return ms_since(decided);
  }
};

// The two copies alone, in GB/s.
class Copies {
 public:
  static Result<Copies> make(ServerDevice& device, std::int64_t floats) {
    PACELINE_ASSIGN_OR_RETURN(auto shard, device.make_shard({.floats = floats, .optimizer = OptimizerSection()}));
    return Copies(std::move(shard));
  }

  Status run(std::span<float> memory) {
    const std::shared_ptr<const void> owner(memory.data(), [](const void*) {});
    const double gigabytes = static_cast<double>(memory.size_bytes()) * 1e-9;
    PACELINE_RETURN_IF_ERROR(shard_->begin(0));
    Ticks begin = steady_now();
    PACELINE_RETURN_IF_ERROR(shard_->send(0, 0, SharedFloats(owner, memory)));
    PACELINE_RETURN_IF_ERROR(shard_->settle());
    up_.push_back(gigabytes / (ms_since(begin) * 1e-3));
    begin = steady_now();
    PACELINE_RETURN_IF_ERROR(shard_->fetch(DeviceVector::kParameters, 0, memory));
    PACELINE_RETURN_IF_ERROR(shard_->finish());
    down_.push_back(gigabytes / (ms_since(begin) * 1e-3));
    return Status::ok();
  }

  double up() const { return median(up_); }
  double down() const { return median(down_); }

 private:
  explicit Copies(std::unique_ptr<ShardDevice> shard) : shard_(std::move(shard)) {}

  std::unique_ptr<ShardDevice> shard_;
  std::vector<double> up_;
  std::vector<double> down_;
};

Status measure(const std::shared_ptr<ServerDevice>& device, OptimizerKind kind, std::int64_t floats,
               int rounds, std::ostream& out) {
  const auto memory = device->page_locked(nullptr);
  const std::pmr::vector<float> gradient(static_cast<std::size_t>(floats), 1e-3F, memory.get());
  std::pmr::vector<float> copied(static_cast<std::size_t>(floats), 0.0F, memory.get());
  PACELINE_ASSIGN_OR_RETURN(Copies copies, Copies::make(*device, floats));
  Applying on_gpu(kind, floats, device);
  Applying on_cpu(kind, floats, nullptr);
  PACELINE_RETURN_IF_ERROR(on_gpu.begin());
  PACELINE_RETURN_IF_ERROR(on_cpu.begin());
  struct Turn {
    Applying& applying;
    bool ahead;
    std::vector<double> ms;
  };
  std::array<Turn, 4> turns{
      {{on_gpu, false, {}}, {on_cpu, false, {}}, {on_gpu, true, {}}, {on_cpu, true, {}}}};
  for (int round = -1; round < rounds; ++round) {  // fresh memory in the first
    PACELINE_RETURN_IF_ERROR(copies.run(copied));
    for (std::size_t k = 0; k < turns.size(); ++k) {
      Turn& turn = turns[round % 2 == 0 ? k : turns.size() - 1 - k];
      PACELINE_ASSIGN_OR_RETURN(const double took, turn.applying.decide(gradient, turn.ahead));
      if (round >= 0) turn.ms.push_back(took);
    }
  }
  const double gpu = median(turns[0].ms);
  const double cpu = median(turns[1].ms);
  const double gpu_ahead = median(turns[2].ms);
  const double cpu_ahead = median(turns[3].ms);
  const double megabytes = static_cast<double>(floats) * sizeof(float) * 1e-6;
  const double limit_ahead = megabytes / copies.down();
  const double limit = std::max(megabytes / copies.up(), limit_ahead);
  out << "{\"benchmark\": \"server_apply\", \"optimizer\": \"" << name_of(kind)
      << "\", \"floats\": " << floats << ", \"rounds\": " << rounds << ", \"gpu_ms\": " << gpu
      << ", \"cpu_ms\": " << cpu << ", \"ratio\": " << gpu / cpu << ", \"gpu_ahead_ms\": " << gpu_ahead
      << ", \"cpu_ahead_ms\": " << cpu_ahead << ", \"ratio_ahead\": " << gpu_ahead / cpu_ahead
      << ", \"up_gbps\": " << copies.up() << ", \"down_gbps\": " << copies.down()
      << ", \"limit_ms\": " << limit << ", \"limit_ahead_ms\": " << limit_ahead
      << ", \"of_limit\": " << gpu / limit << ", \"of_limit_ahead\": " << gpu_ahead / limit_ahead << "}"
      << std::endl;
  return Status::ok();
}

}  // namespace

Status server_apply(const std::shared_ptr<ServerDevice>& device, const std::vector<std::int64_t>& floats,
                    int rounds, std::ostream& out) {
  for (const std::int64_t n : floats) {
    for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kAdam}) {
      PACELINE_RETURN_IF_ERROR(measure(device, kind, n, rounds, out));
    }
  }
  return Status::ok();
}

}  // namespace paceline::bench
