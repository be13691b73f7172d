#include "server/shards/shard_peers.h"

#include "server/peers/reconnects.h"

namespace paceline::server {

using As = wire::LogEntry::As;

bool ShardPeers::count_rejected(const wire::PeerId& from, const wire::ShardJoin& join) {
  const std::optional<Peer> known = connections_.members().who(from);
  if (!known) return false;  // counted if it is refused
  const bool present = !connections_.members().is_gone(*known);
  const bool broken = connections_.router().count_rejected_join(from);
  if (broken && present) connections_.losses().evict(*known, "refused: it went on joining");
  return broken || (present && *known == Peer::of(join.shard));
}

bool ShardPeers::on_join(const wire::PeerId& from, const wire::ShardJoin& join, Ticks now) {
  if (count_rejected(from, join)) return false;
  const std::string who = "shard " + to_string(join.shard);
  // Of one that has begun anew; the one before may yet have to hear that it is to.
  if (authority_ && authority_->reconfigures() && join.goes_on != generation_.number) {
    connections_.send_to(from,
                         wire::Error{StatusCode::kUnavailable, "the authority is about to go on", false});
    return false;
  }
  Status status;
  if (!setup_.is_authority()) {
    status = failed_precondition(who + " joined " + setup_.name() + ", which is not the authority");
  } else {
    status = connections_.check_key(wire::may_be_server(connections_.router().key_name()), who);
  }
  if (!status.is_ok()) {
    connections_.refuse_join(from, status);
    return false;
  }
  if (join.goes_on != 0 || connections_.members().is_here(join)) {
    on_reconnect(from, join, now);
    return false;
  }
  if (join.protocol_version == wire::kProtocolVersion && join.resumes != generation_.resumes) {
    status = failed_precondition(
        who + " was started " +
        (join.resumes ? "with --resume, the authority without" : "without --resume, the authority with it"));
  } else {
    status = connections_.members().admit(join, from, now);
  }
  if (!status.is_ok()) {
    const bool ours = authority_ && join.shard.value < setup_.config.cluster.shards;
    if (ours) authority_->join_refused(Peer::of(join.shard), status.message());
    connections_.refuse_join(from, status);
    return false;
  }
  connections_.router().remember(from);
  role_.note(As::kAdmission, Peer::of(join.shard), join, {}, now);
  channels_.begin(join.shard);
  if (generation_.resumes) return true;
  connections_.send_to(from, wire::ShardWelcome{generation_.number, {}, 0});
  authority_->shard_joined(join.shard);
  return false;
}

// One that says nothing of going on had not heard its welcome, or waits for it: the checkpoint is not chosen
// yet.
void ShardPeers::on_reconnect(const wire::PeerId& from, const wire::ShardJoin& join, Ticks now) {
  Membership& members = connections_.members();
  const Peer shard = Peer::of(join.shard);
  const bool other_run = join.goes_on != 0 && (!authority_ || join.goes_on != generation_.number);
  if (other_run || !members.is_here(join)) {
    return connections_.refuse_join(from, failed_precondition(to_string(shard) + " has gone from this run"));
  }
  if (members.is_behind(join)) return connections_.router().give_up(from);  // it has gone, and was read late
  const Membership::Connection before = members.last_connection_of(shard);
  ReliableChannel& channel = channels_.with(join.shard);
  Status moved = connections_.losses().unreachable().dropped(shard);
  if (moved.is_ok()) moved = channel.on_ack(join.acked);
  if (moved.is_ok()) moved = members.go_on(join, from, now);
  if (!moved.is_ok()) {
    connections_.losses().evict(shard, moved.message());
    return connections_.refuse_join(from, moved);
  }
  role_.note(As::kReturn, shard, join, {}, now);
  connections_.give_up(shard, before);
  connections_.reconnected(from);
  if (members.moves_of(shard) <= kReconnectsLogged) {
    setup_.log.warn(to_string(shard) +
                    "'s connection to the authority broke, and it goes on over another one: " +
                    retransmitted(channel, members.moves_of(shard)));
  }
  if (!authority_) return;
  connections_.send_to(from, wire::ShardWelcome{generation_.number, generation_.from, channel.ack()});
  for (const wire::Message& message : channel.unacked()) {
    const Status sent = connections_.send_or_hold(from, message);
    if (!sent.is_ok()) return connections_.cannot_send(shard, sent);
  }
}

void ShardPeers::on(Peer from, const wire::Message& message, Ticks now) {
  const bool must_ack = channels_.with(from.shard()).on_receive(message);
  if (authority_) {
    role_.note(As::kToAuthority, from, message.body, message.payload, now);
    const Status status = authority_->handle(from, message, now);
    if (!status.is_ok()) connections_.refuse(from, status, /*fatal=*/false);
  }
  if (must_ack) send_ack(from);  // after the event that it is
}

void ShardPeers::on_heartbeat(Peer from, const wire::Heartbeat& beat) {
  if (!authority_) return;
  moved_[from.shard()] = beat.traffic;
  role_.note(from, {.what = wire::LocalEvent::What::kAcked, .number = beat.acked}, clock_.now());
  const Status acked = channels_.on_ack(from.shard(), beat.acked);
  if (!acked.is_ok()) connections_.refuse(from, acked, /*fatal=*/true);
}

void ShardPeers::send_ack(Peer shard) {
  connections_.send_to(shard, wire::Heartbeat{{}, {}, channels_.with(shard.shard()).ack()});
}

Traffic ShardPeers::moved() const {
  Traffic sum;
  for (const auto& [shard, traffic] : moved_) sum += traffic;
  return sum;
}

}  // namespace paceline::server
