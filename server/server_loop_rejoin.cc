// A node whose connection broke while both ends live, and that goes on over another one: the same process,
// told by its incarnation and, where the run has keys, its key.
//
//   node                                     server
//   (connection 1 breaks)
//   Join{goes_on} over connection 2      ->  connection 1 is given up: what of it was not read counts for
//                                            nothing, and neither side reads any more what it lent the other;
//                                            a gradient that was here in part is forgotten
//                                        <-  Welcome; the authority: what the node may not have heard, again
//   what may not have been heard, again  ->  what was is dropped (GradientStore: each stamp counts once)
//
// So whatever was under way when connection 1 broke, the server has read a beginning of what was said over
// it, and all that is not known to be in that beginning comes after the Join. Who was lost (silent for a
// lease, refused for good) is lost, whatever connection it comes over.
#include "common/wire/reconnect_pause.h"
#include "server/server_loop.h"

namespace paceline::server {

// Whether the join is of the process that is here, over another connection. One that says nothing of going on
// had not heard its welcome; one that has been in this generation, and does not say that it goes on, has left
// it (worker/session.h), and is for the ordinary join to refuse.
bool ServerLoop::goes_on(const wire::PeerId& from, const wire::Join& join) const {
  if (join.protocol_version != wire::kProtocolVersion) return false;  // the rest may mean something else
  if (join.goes_on != 0) return true;
  if (waits_for_resume() || !membership_.is_here(join)) return false;
  return *membership_.connection_of(Peer::of(join.node)) != from && join.last_generation < generation_;
}

void ServerLoop::on_rejoin(const wire::PeerId& from, const wire::Join& join, Ticks now) {
  const std::string gone = "node " + to_string(join.node) + " has gone from this run";
  const bool other_run = waits_for_resume() || (join.goes_on != 0 && join.goes_on != generation_);
  if (other_run || !membership_.is_here(join)) return refuse_join(from, failed_precondition(gone));
  const Peer node = Peer::of(join.node);
  const wire::PeerId before = *membership_.connection_of(node);
  if (before == from) return welcome_again(join);  // it says so twice
  Status moved =
      unreachable_.dropped(node);  // what waited for it was too much: that it comes back mends nothing
  if (moved.is_ok()) moved = service_.may_rejoin(join.node, now);
  if (moved.is_ok()) moved = membership_.go_on(join, from, now);
  if (!moved.is_ok()) {
    if (moved.code() == StatusCode::kResourceExhausted) expelled_.emplace_back(node, moved.message());
    return refuse_join(from, moved);
  }
  note(wire::LogEntry::As::kReturn, node, join, {}, now);
  role_.drop(before);
  router_->give_up(before);
  unreachable_.forget(node);
  service_.on_rejoin(join.node);
  if (const Status shared = share_memory(from, join.node); !shared.is_ok()) {
    return refuse(from, shared, /*fatal=*/true);
  }
  router_->remember(from);
  ++reconnects_;
  const std::int64_t times = membership_.moves_of(join.node);
  if (times <= kReconnectsLogged) {
    log_.warn(to_string(node) + "'s connection to shard " + to_string(shard_) +
              " broke, and it goes on over another one: it says " + std::to_string(join.gradients_again) +
              (join.gradients_again == 1 ? " gradient again" : " gradients again") +
              (times == kReconnectsLogged ? "; what else breaks of it is counted, not logged" : ""));
  }
  welcome_again(join);
  if (authority_) authority_->node_rejoined(join.node);
}

void ServerLoop::welcome_again(const wire::Join& join) {
  send_to(*membership_.connection_of(Peer::of(join.node)),
          wire::Welcome{shard_, service_.shard()->range(), generation_, service_.is_initialized(),
                        authority_ && authority_->training()});
}

// How long a node, or another shard, whose connection broke may take to come back. That it broke it notices
// at once, or where the network has not told it, with its next heartbeat; so who is killed is missed sooner
// than by its lease. On one machine nothing breaks a connection but the end of one of its processes, or this
// one.
std::chrono::nanoseconds ServerLoop::given_to_come_back(ShardId server) const {
  const std::chrono::nanoseconds lease = config_.cluster.lease;
  const bool one_machine = config_.cluster.endpoints[server.value].starts_with("ipc://");
  const int beats = one_machine ? 0 : kBeatsToComeBack;
  return std::min<std::chrono::nanoseconds>(lease, beats * config_.cluster.heartbeat + kComesBackWithin);
}

// The same of another shard, where another replica may be about to serve in its place.
std::chrono::nanoseconds ServerLoop::given_to_return() const {
  if (config_.cluster.replicas > 1) return wire::kLeasesToTakeOver * config_.cluster.lease;
  return given_to_come_back(shard_);
}

}  // namespace paceline::server
