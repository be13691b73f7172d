#include "tests/sim/replicas/replica_state.h"

#include <string>

#include "tests/sim/replicas/carried.h"

namespace paceline::test {

using As = wire::LogEntry::As;
using What = wire::LocalEvent::What;

namespace {

constexpr std::int64_t kSavedEvery = 4;  // versions

// FNV-1a over the counts, in the place of a file.
FileDigest digest_of(const Counts& counts, std::uint32_t workers) {
  FileDigest digest{0, 14695981039346656037ULL};
  for (std::uint32_t r = 0; r < workers; ++r) {
    for (Clock stamp; stamp.value < counts.clocks(); stamp = stamp.next()) {
      digest.checksum = (digest.checksum ^ counts.of(Rank(r), stamp)) * 1099511628211ULL;
      ++digest.bytes;
    }
  }
  return digest;
}

}  // namespace

ReplicaState::ReplicaState(ShardId shard, const RunPlan& plan, std::int64_t clocks, Network& network,
                           Violations& violations, Handlers handlers)
    : shard_(shard),
      plan_(plan),
      violations_(violations),
      handlers_(std::move(handlers)),
      model_(shard, plan.config.cluster, clocks, violations) {
  if (shard != kAuthority) return;
  authority_.emplace(sync::Engine(plan.config), AuthorityChecker(plan.config, violations), network,
                     handlers_of_authority());
}

AuthorityModel::Handlers ReplicaState::handlers_of_authority() {
  return {[this](WorkerId worker, const AuthorityModel::Instruction& what) { instruct(worker, what); },
          [this](const wire::Message& message) { to_shards(message); },
          [this](const sync::Discard& d) {
            discarded_.insert({d.worker, d.clock});
            handlers_.discards({wire::DiscardGradient{d.worker, d.clock}, {}, {}});
          },
          [this](const AuthorityModel& authority) { return saves(authority); }, [] {}};
}

bool ReplicaState::saves(const AuthorityModel& authority) {
  const Version version = authority.engine().version();
  return version.value > 0 && version.value % kSavedEvery == 0 && saved_.try_emplace(version).second;
}

void ReplicaState::instruct(WorkerId worker, const AuthorityModel::Instruction& what) {
  if (const auto* grant = std::get_if<sync::Grant>(&what)) {
    granted_[{worker, grant->clock}] = grant->iteration;
    const wire::Grant reported{.worker = worker, .clock = grant->clock, .iteration = grant->iteration};
    handlers_.node(worker.node, carrying(reported, *grant));
  } else if (std::holds_alternative<sync::FinishWorker>(what)) {
    finished_.insert(worker);
    handlers_.node(worker.node, {wire::FinishWorker{.worker = worker}, {}, {}});
  }
}

void ReplicaState::apply(const wire::Message& event) {
  const wire::LogEntry& logged = *event.logged;
  const Ticks at(logged.at);
  if (logged.as == As::kLocalEvent) return local_event(event, at);
  if (logged.as == As::kToAuthority) return authority_receives(event, at);
  if (const auto* join = std::get_if<wire::Join>(&event.body)) {
    logged.as == As::kReturn ? goes_on(join->node)
                             : admit(join->node, static_cast<Party>(join->incarnation), at);
  } else if (const auto* push = std::get_if<wire::Push>(&event.body)) {
    takes(*push, event.payload);
  } else if (logged.as == As::kToShard) {
    shard_receives(event);
  }
}

void ReplicaState::admit(NodeId node, Party who, Ticks at) {
  here_[node] = who;
  model_.reconnected(node);  // of the process before
  if (!authority_) return;
  for (std::uint32_t t = 0; t < plan_.config.cluster.threads_per_node; ++t) {
    if (!authority_->step(sync::Joined{WorkerId(node, t)}, at)) too_late_.insert(who);
  }
  if (too_late_.contains(who)) refuse(node, "the run is over");
}

void ReplicaState::goes_on(NodeId node) {
  model_.reconnected(node);
  if (!authority_) return;
  too_late_.contains(here_.at(node)) ? refuse(node, "the run is over") : authority_->node_reconnected(node);
}

void ReplicaState::refuse(NodeId node, const std::string& why) {
  handlers_.node(node, {wire::Error{StatusCode::kFailedPrecondition, why, true}, {}, {}});
}

void ReplicaState::takes(const wire::Push& push, const wire::Payload& payload) {
  const std::optional<wire::GradientArrived> arrived = model_.takes(push, payload);
  if (!arrived) return;
  whole_.insert({arrived->worker, arrived->clock});
  handlers_.authority({*arrived, {}, {}});
}

void ReplicaState::shard_receives(const wire::Message& message) {
  if (const auto* lost = std::get_if<wire::NodeLost>(&message.body)) {
    const auto who = static_cast<Party>(lost->incarnation);
    gone_.insert(who);
    if (here_.contains(lost->node) && !is_here(lost->node, who)) return;  // another process of it is here
    handlers_.forgets(lost->node);
  }
  model_.receives(message);
  const auto* const decision = std::get_if<wire::ApplyDecision>(&message.body);
  if (decision == nullptr || !decision->save) return;
  const FileDigest digest = digest_of(model_.counts(), plan_.config.cluster.workers());
  handlers_.authority({wire::Saved{shard_, decision->version_after, digest, ""}, {}, {}});
}

void ReplicaState::authority_receives(const wire::Message& message, Ticks at) {
  if (const auto* r = std::get_if<wire::StepReport>(&message.body)) {
    authority_->step(sync::StepReported{r->worker, r->clock, r->metric, r->computed_version,
                                        r->computed_revision, r->skipped, r->fault, r->own_updates},
                     at);
  } else if (const auto* a = std::get_if<wire::GradientArrived>(&message.body)) {
    authority_->step(sync::GradientArrived{a->shard, a->worker, a->clock, a->samples, a->fault}, at);
  } else if (const auto* lost = std::get_if<wire::NodeLost>(&message.body)) {
    const auto who = static_cast<Party>(lost->incarnation);
    if (is_here(lost->node, who) && !has_gone(who)) lose(lost->node, at);
  } else if (std::holds_alternative<wire::Leave>(message.body)) {
    lose(*message.logged->node, at);
  } else if (const auto* saved = std::get_if<wire::Saved>(&message.body)) {
    saved_[saved->version].insert(saved->shard);
    const auto [known, first] = digests_.try_emplace(saved->version, saved->digest);
    if (!(known->second == saved->digest))
      violations_.push_back("the shards have saved different gradients as version " +
                            to_string(saved->version));
  }
}

void ReplicaState::local_event(const wire::Message& event, Ticks at) {
  const auto& local_event = std::get<wire::LocalEvent>(event.body);
  if (local_event.what == What::kRemoved) gone_.insert(here_.at(*event.logged->node));
  if (!authority_) return;
  if (local_event.what == What::kTick) authority_->step(sync::Tick{}, at);
  if (local_event.what == What::kStop) authority_->step(sync::StopRequested{local_event.text}, at);
  if (local_event.what == What::kLost) lose(*event.logged->node, at);
}

void ReplicaState::lose(NodeId node, Ticks at) {
  const Party who = here_.at(node);
  gone_.insert(who);
  authority_->step(sync::Lost{node}, at);
  to_shards({wire::NodeLost{node, "", static_cast<std::uint64_t>(who)}, {}, {}});
  refuse(node, "it was lost");
}

// Its own shard is in its process.
void ReplicaState::to_shards(const wire::Message& message) {
  shard_receives(message);
  for (std::uint32_t s = 1; s < plan_.config.shards; ++s) handlers_.shard(ShardId(s), message);
}

}  // namespace paceline::test
