#include "server/authority/run_saves.h"

#include <utility>
#include <variant>

#include "common/checkpoint/engine_state.h"

namespace paceline::server {

RunSaves::RunSaves(RunCore& core, const RunOutcome& state, RunRecord& record, RunOutbox& outbox,
                   Checkpoints& checkpoints, std::optional<std::uint64_t> data)
    : core_(core), state_(state), record_(record), outbox_(outbox), checkpoints_(checkpoints), data_(data) {}

void RunSaves::nodes_have(const Layout& layout, std::uint64_t data) {
  if (layout_.size() == 0) layout_ = layout;
  data_ = data;
}

const sync::Apply* RunSaves::due(const std::vector<sync::Action>& actions,
                                 const EvaluationSchedule& evaluations, Ticks now) {
  if (!checkpoints_.enabled()) return nullptr;
  const sync::Apply* last = nullptr;
  for (const sync::Action& action : actions) {
    if (const auto* apply = std::get_if<sync::Apply>(&action)) last = apply;
  }
  const sync::Engine& engine = core_.engine();
  if (last == nullptr || last->version_after != engine.version() ||
      last->revision_after != engine.revision() ||
      !checkpoints_.due(last->version_after, now, evaluations.takes(last->version_after))) {
    return nullptr;
  }
  return last;
}

void RunSaves::begin(Ticks now) {
  const sync::Engine& engine = core_.engine();
  Manifest manifest;
  manifest.id.version = engine.version();
  manifest.revision = engine.revision();
  manifest.decisions = outbox_.decisions();
  manifest.layout_hash = layout_.hash();
  manifest.data_fingerprint = data_;
  manifest.seconds_trained = state_.training() ? record_.seconds(now) : record_.wall_seconds();
  manifest.engine = checkpoint::to_bytes(engine.state());
  record_.checkpoints(checkpoints_.written(), checkpoints_.failed());
  manifest.record = to_bytes(record_.state());
  if (core_.trace() != nullptr) core_.trace()->saving(manifest.id.version, now);
  checkpoints_.begin(std::move(manifest), now);
}

void RunSaves::send_last(Last what, Ticks now) {
  wire::ApplyDecision decision;
  decision.version_after = core_.engine().version();
  decision.revision_after = core_.engine().revision();
  decision.retain = what.retain;
  decision.save = what.save;
  outbox_.decide(std::move(decision));
  if (what.save) begin(now);
}

}  // namespace paceline::server
