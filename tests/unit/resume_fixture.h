// An engine whose nodes have one thread each and complete what they are told to; and what it says when its
// state is taken up again.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/sync/engine.h"

namespace paceline::sync {

class SavedCast {
 public:
  explicit SavedCast(Engine engine) : engine_(std::make_unique<Engine>(std::move(engine))) {}
  // All nodes have joined.
  explicit SavedCast(const EngineConfig& config) : SavedCast(Engine(config)) {
    for (std::uint32_t node = 0; node < config.cluster.nodes; ++node) join(node);
  }

  const Engine& engine() const { return *engine_; }

  std::vector<Action> take(const Event& event) {
    std::vector<Action> actions;
    now_ = now_ + std::chrono::milliseconds(1);
    engine_->step(event, now_, actions);
    for (const Action& action : actions) {
      if (const auto* grant = std::get_if<Grant>(&action)) grants_[grant->worker.node.value] = *grant;
      if (const auto* window = std::get_if<WindowClosed>(&action)) windows_.push_back(*window);
      if (const auto* reject = std::get_if<Reject>(&action)) refused_ = reject->status.message();
      if (const auto* end = std::get_if<AllFinished>(&action)) end_ = end->reason;
    }
    return actions;
  }
  void join(std::uint32_t node) { take(Joined{WorkerId(node, 0)}); }
  void lose(std::uint32_t node) { take(Lost{NodeId(node)}); }
  void arrive(std::uint32_t node) {
    const Grant& grant = grants_.at(node);
    take(GradientArrived{ShardId(0), grant.worker, grant.clock, grant.samples, ""});
  }
  void complete(std::uint32_t node, std::int64_t correct = 1) {
    const Grant grant = grants_.at(node);
    grants_.erase(node);
    take(GradientArrived{ShardId(0), grant.worker, grant.clock, grant.samples, ""});
    take(StepReported{grant.worker,
                      grant.clock,
                      {1.0, correct, grant.samples},
                      grant.version,
                      grant.revision,
                      false,
                      "",
                      0});
  }
  void complete(std::initializer_list<std::uint32_t> nodes) {
    for (const std::uint32_t node : nodes) complete(node);
  }
  void complete_empty(std::uint32_t node) {
    const Grant grant = grants_.at(node);
    grants_.erase(node);
    take(StepReported{grant.worker, grant.clock, {}, grant.version, grant.revision, true, "", 0});
  }
  // Of the iteration that it is in; -1: it is in none.
  std::int64_t iteration(std::uint32_t node) const {
    return grants_.count(node) > 0 ? grants_.at(node).iteration : -1;
  }
  const Grant& grant(std::uint32_t node) const { return grants_.at(node); }
  const std::vector<WindowClosed>& windows() const { return windows_; }
  const std::string& refused() const { return refused_; }  // the last
  std::optional<EndReason> end() const { return end_; }

 private:
  std::unique_ptr<Engine> engine_;
  std::map<std::uint32_t, Grant> grants_;
  std::vector<WindowClosed> windows_;
  std::string refused_;
  std::optional<EndReason> end_;
  Ticks now_;
};

// Nobody has joined.
inline SavedCast resumed(const EngineConfig& config, const EngineState& state) {
  Result<Engine> engine = Engine::resumed(config, state);
  return SavedCast(std::move(engine).value());
}

}  // namespace paceline::sync
