#include "server/authority/run_core.h"

#include <utility>

#include "common/assert.h"
#include "common/config/engine_config.h"
#include "common/trace/bound.h"

namespace paceline::server {
namespace {

sync::Engine core_of(const RunConfig& config, const sync::EngineState* resumed) {
  if (resumed == nullptr) return sync::Engine(engine_config(config));
  auto engine = sync::Engine::resumed(engine_config(config), *resumed);
  PACELINE_ASSERT(engine.is_ok(), engine.status().message());
  return std::move(engine).value();
}

}  // namespace

RunCore::RunCore(const RunConfig& config, const sync::EngineState* resumed, CarryOut carry_out)
    : config_(config), carry_out_(std::move(carry_out)), engine_(core_of(config, resumed)) {
  if (config.run.trace) trace_.emplace(trace::decision_events(config.run.trace_events));
}

Status RunCore::step(const sync::Event& event, Ticks now) {
  PACELINE_ASSERT(!stepping_, "what carries out an event's actions steps the next one");
  stepping_ = true;
  actions_.clear();
  engine_.step(event, now, actions_);
  if (trace_) trace_->stepped(event, actions_, engine_, now);
  Status carried_out = carry_out_(actions_, now);
  stepping_ = false;
  return carried_out;
}

void RunCore::step_own(const sync::Event& event, Ticks now) {
  const Status status = step(event, now);
  PACELINE_ASSERT(status.is_ok(), status.message());
}

}  // namespace paceline::server
