// A simulated server and those who come to it: nodes, and the authority and the other shards.
#include "tests/sim/replicas/carried.h"
#include "tests/sim/replicas/server_model.h"

namespace paceline::test {

using server::ReliableChannel;

// ---- nodes

bool ServerModel::has_another_process_of(NodeId node, Party who) const {
  const auto found = state_.here().find(node);
  return found != state_.here().end() && found->second != who && !state_.has_gone(found->second);
}

// As server/sessions/node_sessions.cc has it.
void ServerModel::node_joins(NodeId node, Party who) {
  turn([&] {
    const bool goes_on = state_.is_here(node, who);
    const bool gone = state_.has_gone(who);
    std::optional<wire::Message> event;
    if (!gone) {
      const wire::Join join{.node = node, .incarnation = static_cast<std::uint64_t>(who)};
      event = note(goes_on ? As::kReturn : As::kAdmission, Peer::of(node), join);
    }
    if (goes_on) ++run_.faults.nodes_gone_on;
    const auto before = connection_of_.find(who);
    if (before != connection_of_.end() && run_.breach != Breach::kHeldIsKept) {
      role_.drop(before->second);
      node_at_.erase(before->second);
    }
    wire::PeerId& connection = connection_of_[who];
    connection = "node " + std::to_string(who) + " over " + std::to_string(++connections_);
    node_at_[connection] = who;
    absent_.erase(who);
    if (gone) return hold(connection, {wire::Error{StatusCode::kFailedPrecondition, "gone", true}, {}, {}});
    hold(connection, {wire::Welcome{.shard = state_.shard()}, {}, {}});
    state_.apply(*event);
  });
}

void ServerModel::node_sends(NodeId node, Party who, const wire::Message& message) {
  const auto connection = connection_of_.find(who);
  if (!serves() || connection == connection_of_.end() || state_.has_gone(who)) return;
  turn([&] {
    if (const auto* pull = std::get_if<wire::Pull>(&message.body)) {
      // What it is answered is no event.
      state_.model().pull(
          node, pull->min_version,
          [this, at = connection->second, request = pull->request](const SliceAnswer& answer) {
            const wire::Parameters parameters{.request = request,
                                              .shard = state_.shard(),
                                              .version = answer.stamp.version,
                                              .revision = answer.stamp.revision};
            if (node_at_.contains(at)) hold(at, carrying(parameters, answer));
          });
      return;
    }
    const bool is_push = std::holds_alternative<wire::Push>(message.body);
    happens(is_push ? As::kToShard : As::kToAuthority, Peer::of(node), message.body, message.payload);
    if (std::holds_alternative<wire::Leave>(message.body))
      happens(As::kLocalEvent, Peer::of(node), wire::LocalEvent{.what = What::kRemoved});
  });
}

// As ServerLoop::lose() does.
void ServerModel::misses(NodeId node) {
  if (!serves()) return;
  const Party who = state_.here().at(node);
  if (state_.has_gone(who)) return;
  turn([&] {
    happens(As::kLocalEvent, Peer::of(node), wire::LocalEvent{.what = What::kRemoved});
    if (is_authority())
      return happens(As::kLocalEvent, Peer::of(node), wire::LocalEvent{.what = What::kLost});
    to_authority(
        {wire::NodeLost{node, "silent", static_cast<std::uint64_t>(who), /*out_of_reach=*/true}, {}, {}});
  });
}

void ServerModel::stop(const std::string& why) {
  turn([&] {
    happens(As::kLocalEvent, Peer::of(state_.shard()), wire::LocalEvent{.what = What::kStop, .text = why});
  });
}

void ServerModel::to_node(NodeId node, const wire::Message& message) {
  const auto connection = connection_of_.find(state_.here().at(node));
  if (connection != connection_of_.end()) hold(connection->second, message);
}

// ---- at the authority: another shard

void ServerModel::to_shard(ShardId shard, const wire::Message& message) {
  channels_.with(shard).on_send(message);
  const auto connection = shard_connection_of_.find(shard);
  if (connection != shard_connection_of_.end()) hold(connection->second, message);
}

void ServerModel::shard_joins(ShardId shard, std::int64_t received) {
  turn([&] {
    ReliableChannel& channel = channels_.with(shard);
    check(channel.on_ack(received), "shard " + to_string(shard) + " joins");
    const bool is_new = shards_here_.insert(shard).second;
    const wire::ShardJoin join{.shard = shard, .acked = received};
    note(is_new ? As::kAdmission : As::kReturn, Peer::of(shard), join);
    if (!is_new) ++run_.faults.shards_gone_on;
    wire::PeerId& connection = shard_connection_of_[shard];
    if (run_.breach != Breach::kHeldIsKept) {
      role_.drop(connection);
      shard_at_.erase(connection);
    }
    connection = "shard " + to_string(shard) + " over " + std::to_string(++connections_);
    shard_at_[connection] = shard;
    hold(connection, {wire::ShardWelcome{.acked = channel.ack()}, {}, {}});
    for (const wire::Message& message : channel.unacked()) {
      ++retransmitted_;
      hold(connection, message);
    }
  });
}

void ServerModel::shard_sends(ShardId shard, const wire::Message& message) {
  if (!serves() || !shard_connection_of_.contains(shard)) return;
  turn([&] {
    ReliableChannel& channel = channels_.with(shard);
    if (const auto* beat = std::get_if<wire::Heartbeat>(&message.body)) {
      other_received(note(As::kLocalEvent, Peer::of(shard),
                          wire::LocalEvent{.what = What::kAcked, .number = beat->acked}));
      return;
    }
    const bool acks = takes_and_acks(channel, message);
    happens(As::kToAuthority, Peer::of(shard), message.body);
    if (acks) hold(shard_connection_of_[shard], {wire::Heartbeat{{}, {}, channel.ack()}, {}, {}});
  });
}

// ---- at another shard: the authority

void ServerModel::authority_sends(const wire::Message& message) {
  if (!serves()) return;
  const auto* welcome = std::get_if<wire::ShardWelcome>(&message.body);
  if (!welcomed_ && (welcome == nullptr || !asks_)) return;  // it is another connection's
  turn([&] {
    const auto received = [&](std::int64_t number) {
      other_received(note(As::kLocalEvent, Peer::of(kAuthority),
                          wire::LocalEvent{.what = What::kAcked, .number = number}));
    };
    if (welcome != nullptr) {
      received(welcome->acked);
      welcomed_ = true;
      return send_unacked();
    }
    if (const auto* beat = std::get_if<wire::Heartbeat>(&message.body)) return received(beat->acked);
    const bool acks = takes_and_acks(channels_.authority(), message);
    happens(As::kToShard, Peer::of(kAuthority), message.body);
    if (acks) to_authority({wire::Heartbeat{{}, {}, channels_.authority().ack()}, {}, {}});
  });
}

void ServerModel::send_unacked() {
  role_.drop(server::EventLog::To::authority());
  for (const wire::Message& message : channels_.authority().unacked()) {
    ++retransmitted_;
    hold(server::EventLog::To::authority(), message);
  }
}

}  // namespace paceline::test
