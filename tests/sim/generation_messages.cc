// What the parties say to each other, over which connection, and who hears it.
#include "tests/sim/generation.h"

namespace paceline::test {

using namespace paceline::sync;

AuthorityModel::Handlers Generation::handlers() {
  return {[this](WorkerId worker, const AuthorityModel::Instruction& what) { to_node(worker, what); },
          [this](const wire::Message& message) { to_shards(message); },
          [this](const Discard& d) { surroundings_.fates[{d.worker, d.clock}] = Fate::kDiscarded; },
          [this](const AuthorityModel& authority) { return saves(authority); }, [this] { go_on_later(); }};
}

void Generation::to_node(WorkerId worker, const AuthorityModel::Instruction& what) {
  NodeModel& node = node_at(worker.node);
  if (const auto* grant = std::get_if<Grant>(&what)) granted_[{worker, grant->clock}] = grant->iteration;
  network_.send(kAuthorityParty, node.party(), [&node, what] {
    if (const auto* grant = std::get_if<Grant>(&what)) node.on_grant(*grant);
    if (const auto* finish = std::get_if<FinishWorker>(&what)) node.on_finish(finish->worker);
  });
}

// The authority's own is in its process.
void Generation::to_shards(const wire::Message& message) {
  network_.send(kAuthorityParty, shard_party(0), [this, message] { shard_receives(ShardId(0), message); });
  for (std::uint32_t s = 1; s < shards_.size(); ++s) lines_[s]->to_shard(message);
}

void Generation::shard_receives(ShardId shard, const wire::Message& message) {
  shards_[shard.value]->receives(message);
  if (const auto* lost = std::get_if<wire::NodeLost>(&message.body))
    unknown_[shard.value].insert(static_cast<Party>(lost->incarnation));
  const auto* const decision = std::get_if<wire::ApplyDecision>(&message.body);
  if (decision == nullptr || !decision->save) return;
  images_[shard.value] = shards_[shard.value]->image();
  to_authority(shard, {wire::Saved{shard, decision->version_after, {}, ""}, {}});
}

void Generation::to_authority(ShardId from, const wire::Message& message) {
  if (from != kAuthority) return lines_[from.value]->to_authority(message);
  network_.send(shard_party(0), kAuthorityParty, [this, message] { authority_receives(message); });
}

void Generation::authority_receives(const wire::Message& message) {
  if (const auto* a = std::get_if<wire::GradientArrived>(&message.body)) {
    authority_.takes(GradientArrived{a->shard, a->worker, a->clock, a->samples, a->fault});
  } else if (const auto* lost = std::get_if<wire::NodeLost>(&message.body)) {
    lose(lost->node, static_cast<Party>(lost->incarnation));
  } else if (std::holds_alternative<wire::Saved>(message.body)) {
    if (++parts_saved_ == shards_.size()) complete_save();
  }
}

void Generation::receives(NodeModel& from, ShardId server, const wire::Message& message) {
  const bool is_unknown = unknown_[server.value].count(from.party()) > 0;
  if (const auto* r = std::get_if<wire::StepReport>(&message.body)) {
    authority_.takes(StepReported{r->worker, r->clock, r->metric, r->computed_version, r->computed_revision,
                                  r->skipped, r->fault, r->own_updates});
  } else if (std::holds_alternative<wire::Leave>(message.body)) {
    lose(from.id(), from.party());
  } else if (is_unknown) {
    return;
  } else if (const auto* push = std::get_if<wire::Push>(&message.body)) {
    takes(server, *push, message.payload);
  } else if (const auto* pull = std::get_if<wire::Pull>(&message.body)) {
    shards_[server.value]->pull(from.id(), pull->min_version,
                                [this, &from, server, request = pull->request](const SliceAnswer& answer) {
                                  // In any order: answers to different pulls may overtake each other, as
                                  // they do between a node's connections.
                                  network_.send_in_any_order(shard_party(server.value), from.party(),
                                                             [&from, server, request, answer] {
                                                               from.on_answer(request, server, answer);
                                                             });
                                });
  }
}

void Generation::takes(ShardId shard, const wire::Push& push, const wire::Payload& payload) {
  const std::optional<wire::GradientArrived> arrived = shards_[shard.value]->takes(push, payload);
  if (!arrived) return;
  if (chance(plan_.other_samples_chance)) {
    to_authority(shard, {wire::GradientArrived{shard, push.worker, push.clock, push.samples + 8, ""}, {}});
  }
  to_authority(shard, {*arrived, {}});
  if (network_.random().next_double() < plan_.duplicate_chance) to_authority(shard, {*arrived, {}});
}

}  // namespace paceline::test
