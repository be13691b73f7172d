#include "tests/sim/replicas/acknowledged.h"

#include <algorithm>
#include <string>

#include "tests/sim/replicas/replica_state.h"

namespace paceline::test {

void Acknowledged::note(const wire::Message& reported) {
  if (const auto* grant = std::get_if<wire::Grant>(&reported.body)) {
    granted_[{grant->worker, grant->clock}] = grant->iteration;
  } else if (const auto* finish = std::get_if<wire::FinishWorker>(&reported.body)) {
    finished_.insert(finish->worker);
  } else if (const auto* arrived = std::get_if<wire::GradientArrived>(&reported.body)) {
    whole_.insert({arrived->worker, arrived->clock});
  } else if (const auto* parameters = std::get_if<wire::Parameters>(&reported.body)) {
    revision_ = std::max(revision_, parameters->revision);
  } else if (const auto* decision = std::get_if<wire::ApplyDecision>(&reported.body)) {
    decisions_ = std::max(decisions_, decision->sequence + 1);
  }
}

void Acknowledged::check(const ReplicaState& survivor, Violations& violations) const {
  const auto lacks = [&](const std::string& what) {
    violations.push_back("shard " + to_string(survivor.shard()) +
                         ": acknowledged, and not in the replica that takes over: " + what);
  };
  for (const auto& [stamp, iteration] : granted_) {
    const auto known = survivor.granted().find(stamp);
    if (known == survivor.granted().end() || known->second != iteration)
      lacks("the grant of " + to_string(stamp.first) + "@" + to_string(stamp.second));
  }
  for (const WorkerId worker : finished_) {
    if (!survivor.finished().contains(worker)) lacks("that " + to_string(worker) + " has finished");
  }
  for (const auto& [worker, clock] : whole_) {
    if (!survivor.whole().contains({worker, clock}))
      lacks("the gradient " + to_string(worker) + "@" + to_string(clock));
  }
  if (survivor.model().revision() < revision_) lacks("revision " + to_string(revision_));
  if (survivor.decisions() < decisions_) lacks("decision " + std::to_string(decisions_ - 1));
}

}  // namespace paceline::test
