// Turns, and what is said: what happens is noted, done and told to the follower; what it leads to is held.
#include "tests/sim/replicas/server_model.h"

#include <algorithm>
#include <utility>

#include "tests/sim/replicas/carried.h"

namespace paceline::test {

namespace {

const wire::PeerId kDiscards = "who asks what became of a gradient";

}  // namespace

ServerModel::ServerModel(Process number, ShardId shard, Does does, const Run& run, Acknowledged& acknowledged,
                         Handlers handlers)
    : number_(number),
      run_(run),
      acknowledged_(acknowledged),
      handlers_(std::move(handlers)),
      state_(shard, run.plan, run.clocks, run.network, run.violations, handlers_of_state()),
      channels_(shard),
      role_(does, number, *this),
      wanted_{number},
      known_{number} {
  if (role_.follows()) role_.followed().begin();
}

ReplicaState::Handlers ServerModel::handlers_of_state() {
  return {[this](NodeId node, const wire::Message& message) { to_node(node, message); },
          [this](ShardId shard, const wire::Message& message) { to_shard(shard, message); },
          [this](const wire::Message& message) { on_shard_sends(message); },
          [this](const wire::Message& message) { hold(kDiscards, message); },
          [this](NodeId node) { role_.forget(node); }};
}

void ServerModel::check(const Status& status, const std::string& what) {
  if (!status.is_ok())
    run_.violations.push_back("shard " + to_string(state_.shard()) + ": " + what + ": " + status.message());
}

wire::Message ServerModel::note(As as, Peer who, wire::Body body, wire::Payload payload) {
  wire::Message event = server::ReplicaRole::event(as, who, std::move(body), std::move(payload), now());
  if (!serves()) return event;
  role_.note(as, who, event.body, event.payload, now());
  if (dies_in(Death::In::kTurn)) {
    ++run_.faults.in_turns;
    die();
  }
  return event;
}

void ServerModel::happens(As as, Peer who, wire::Body body, wire::Payload payload) {
  state_.apply(note(as, who, std::move(body), std::move(payload)));
}

void ServerModel::end_turn() {
  if (!serves()) return;
  const std::vector<wire::Message> turn = role_.end_turn();
  const bool dies = dies_telling(turn);
  for (std::size_t i = 0; i + (dies ? 1 : 0) < turn.size(); ++i) handlers_.replica(turn[i]);
  if (dies) die();
  release();
}

bool ServerModel::dies_telling(const std::vector<wire::Message>& turn) {
  if (turn.size() < 2) return false;
  const auto is_loss = [](const wire::Message& event) {
    const auto* local_event = std::get_if<wire::LocalEvent>(&event.body);
    return local_event != nullptr && local_event->what == What::kRemoved;
  };
  const bool dies = dies_in(Death::In::kTelling) ||
                    (std::any_of(turn.begin(), turn.end(), is_loss) && dies_in(Death::In::kTellingOfALoss));
  if (dies) ++run_.faults.in_telling;
  return dies;
}

void ServerModel::hold(const server::EventLog::To& to, wire::Message message) {
  if (!dead_) role_.hold(to, std::move(message), now());
}

void ServerModel::release() {
  if (dead_) return;
  for (const server::EventLog::Output& output : role_.release()) {
    if (dies_in(Death::In::kRelease)) {
      ++run_.faults.in_release;
      die();
    }
    if (dead_) return;
    send_output(output);
  }
}

void ServerModel::send_output(const server::EventLog::Output& output) {
  acknowledged_.note(output.message);
  const std::optional<wire::PeerId>& to = output.to.connection();
  if (!to) return handlers_.authority(output.message);
  if (*to == kDiscards) return handlers_.discards(output.message);
  if (const auto node = node_at_.find(*to); node != node_at_.end())
    return handlers_.node(node->second, output.message);
  if (const auto shard = shard_at_.find(*to); shard != shard_at_.end())
    handlers_.shard(shard->second, output.message);
}

// A disk takes its time; and the one that serves may have to wait for replies to leave (ShardService).
void ServerModel::on_shard_sends(const wire::Message& message) {
  const bool of_a_file = std::holds_alternative<wire::Saved>(message.body);
  const bool waits = of_a_file || (!role_.follows() && (!late_.empty() || chance(3)));
  if (!waits) return send_as_shard(message);
  late_.push_back(message);
  run_.network.after(run_.network.random_between(0, 3'000'000), [this] { send_next_as_shard(); });
}

void ServerModel::send_next_as_shard() {
  turn([this] {
    const wire::Message next = std::move(late_.front());
    late_.pop_front();
    send_as_shard(next);
  });
}

// As ServerLoop::send() does.
void ServerModel::send_as_shard(const wire::Message& message) {
  if (dead_) return;
  compare(role_.on_shard_output(message));
  if (role_.follows()) return;
  if (!is_authority()) return to_authority(message);
  happens(As::kToAuthority, Peer::of(state_.shard()), message.body);
}

void ServerModel::to_authority(const wire::Message& message) {
  channels_.authority().on_send(message);
  if (server::ReliableChannel::counts(message.body, server::ReliableChannel::End::kShard))
    note(As::kSent, Peer::of(state_.shard()), message.body);
  if (welcomed_) hold(server::EventLog::To::authority(), message);
}

void ServerModel::compare(const std::optional<server::UncommittedOutputs::BothSaved>& saved) {
  if (!saved) return;
  ++run_.faults.files_compared;
  check(saved->compare(), "its replicas have come to different states");
}

void ServerModel::die() {
  if (std::exchange(dead_, true)) return;
  if (role_.serves()) run_.faults.never_released += role_.log().outputs();
  handlers_.died();
}

}  // namespace paceline::test
