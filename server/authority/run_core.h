// RunCore: a run's synchronisation core (common/sync/engine.h), which takes events and has its actions carried out, in
// the order in which they were emitted; and the trace of both (run.trace).
//
// Thread: one at a time (the server's loop).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/config/run_config.h"
#include "common/instant.h"
#include "common/status.h"
#include "common/sync/engine.h"
#include "common/trace/decision_log.h"

namespace paceline::server {

class RunCore {
 public:
  // Carries out what one event has led to, and steps nothing meanwhile. The core is where it will be after all of it.
  using CarryOut = std::function<Status(const std::vector<sync::Action>& actions, Ticks now)>;
  // `resumed`: valid for the configuration; null: the run begins. `config` outlives this.
  RunCore(const RunConfig& config, const sync::EngineState* resumed, CarryOut carry_out);
  RunCore(const RunCore&) = delete;

  // The Status is what CarryOut says: what a peer is told whose event was wrong.
  [[nodiscard]] Status step(const sync::Event& event, Ticks now);
  // An event of our own, which cannot be wrong.
  void step_own(const sync::Event& event, Ticks now);

  const sync::Engine& engine() const { return engine_; }
  // As people are told of them: mini-batches.
  std::int64_t iterations_applied() const {
    return config_.train.iterations_in(engine_.iterations_applied());
  }
  // null: none is wanted.
  trace::DecisionLog* trace() { return trace_ ? &*trace_ : nullptr; }

 private:
  const RunConfig& config_;
  const CarryOut carry_out_;
  sync::Engine engine_;
  std::optional<trace::DecisionLog> trace_;
  std::vector<sync::Action> actions_;  // of the event being taken
  bool stepping_ = false;
};

}  // namespace paceline::server
