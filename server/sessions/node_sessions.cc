#include "server/sessions/node_sessions.h"

#include <algorithm>
#include <utility>

#include "server/peers/reconnects.h"

namespace paceline::server {

using As = wire::LogEntry::As;

NodeSessions::NodeSessions(const ServerSetup& setup, const RunClock& clock, ReplicaRole& role,
                           PeerConnections& connections, ShardService& service, OwnAuthority& authority,
                           const RunGeneration& generation)
    : setup_(setup),
      clock_(clock),
      role_(role),
      connections_(connections),
      service_(service),
      authority_(authority),
      generation_(generation),
      late_joins_(setup, clock, role, connections, service, authority, generation),
      sharing_(setup, connections, service) {}

void NodeSessions::on_join(const wire::PeerId& from, const wire::Join& join, Ticks now) {
  if (count_rejected(from, join, now)) return;
  Membership& members = connections_.members();
  const std::string key = connections_.router().key_name();
  const Status own_key =
      connections_.check_key(wire::may_be_node(key, join.node.value), "node " + to_string(join.node));
  if (!own_key.is_ok()) return refuse(from, join, own_key);
  if (members.is_behind(join)) return connections_.router().give_up(from);  // it has gone, and was read late
  if (goes_on(from, join)) return on_reconnect(from, join, now);
  // Before it counts: its number is another process's in this run.
  const bool is_new = join.node.value < setup_.config.cluster.nodes &&
                      join.protocol_version == wire::kProtocolVersion &&
                      !members.has_joined(Peer::of(join.node));
  if (const Status fits = generation_.check(join, setup_.shard);
      is_new && !generation_.waits() && !fits.is_ok()) {
    return refuse(from, join, fits);
  }
  if (role_.waits_for_follower()) {
    const Status not_yet = unavailable(role_.why_it_waits(setup_.name(), setup_.other_endpoint()));
    send_refusal(join, not_yet);
    return connections_.retry_later(from, join.node, not_yet);
  }
  evict_previous(from, join);
  if (const Status may = late_joins_.check(from, join, now); may.code() == StatusCode::kUnavailable) {
    return connections_.retry_later(from, join.node, may);
  } else if (!may.is_ok()) {
    return refuse(from, join, may);
  }
  const Result<Layout> layout = members.admit(join, from, now);
  Result<Range> range = layout.is_ok() ? service_.open(*layout) : layout.status();
  if (range.is_ok()) {
    if (const Status shared = sharing_.share(from, join.node); !shared.is_ok()) range = shared;
  }
  if (!range.is_ok()) {
    if (layout.is_ok()) connections_.remove(Peer::of(join.node));
    return refuse(from, join, range.status());
  }
  connections_.router().remember(from);
  if (!generation_.waits()) return welcome(join, *layout, now);
  // What the handler alone can do is done; the answer comes when there is something to go on from.
  std::erase_if(waiting_, [&](const Waiting& one) { return one.join.node == join.node; });
  waiting_.push_back({from, join, *layout});
}

void NodeSessions::refuse(const wire::PeerId& from, const wire::Join& join, const Status& why) {
  send_refusal(join, why);
  connections_.refuse_join(from, why);
}

void NodeSessions::send_refusal(const wire::Join& join, const Status& why) {
  const bool ours = join.node.value < setup_.config.cluster.nodes;
  if (authority_ && ours) authority_->join_refused(Peer::of(join.node), why.message());
}

// A join may name 65,536 tensors, which takes the others' time. A node says it once, and again when it has
// heard nothing for a lease; whoever goes on with it sooner, or though it was refused, has its connection
// broken. To a server that was away all arrive at once, which is not held against the node: it says few
// (worker/client/joining.h), and those count little.
bool NodeSessions::count_rejected(const wire::PeerId& from, const wire::Join& join, Ticks now) {
  const Membership& members = connections_.members();
  const std::optional<Peer> known = members.who(from);
  if (!known) return false;  // counted if it is refused
  const bool present = !members.is_gone(*known);
  const bool in_time = now - members.joined_at(*known) >= setup_.config.cluster.heartbeat;
  const bool again = present && *known == Peer::of(join.node);
  if (again && in_time) return false;
  wire::RouterSocket& router = connections_.router();
  if (!(again ? router.count_rejected(from) : router.count_rejected_join(from))) return false;
  if (present) connections_.losses().evict(*known, "refused: it went on joining");
  return true;
}

void NodeSessions::welcome(const wire::Join& join, const Layout& layout, Ticks now) {
  const Peer node = Peer::of(join.node);
  if (!connections_.members().is_present(node)) return;  // it has gone meanwhile
  connections_.members().seen(node, now);                // it may have had to wait without a word
  if (const Status fits = generation_.check(join, setup_.shard); !fits.is_ok()) {
    return connections_.refuse(node, fits, /*fatal=*/true);
  }
  role_.note(As::kAdmission, node, join, {}, now);
  service_.on_welcome(join.node);
  welcome_again(join);
  if (authority_) authority_->node_joined(join.node, layout, now, join.incarnation, join.data_fingerprint);
}

// Whether the join is of the process that is here, over another connection. One that says nothing of going on
// had not heard its welcome; one that has been in this generation, and does not say that it goes on, has left
// it (worker/session.h), and is for the ordinary join to refuse.
bool NodeSessions::goes_on(const wire::PeerId& from, const wire::Join& join) const {
  if (join.protocol_version != wire::kProtocolVersion) return false;  // the rest may mean something else
  if (join.goes_on != 0) return true;
  if (generation_.waits() || !connections_.members().is_here(join)) return false;
  return connections_.members().who(from) != Peer::of(join.node) && join.last_generation < generation_.number;
}

void NodeSessions::on_reconnect(const wire::PeerId& from, const wire::Join& join, Ticks now) {
  Membership& members = connections_.members();
  const std::string gone = "node " + to_string(join.node) + " has gone from this run";
  const bool before_this = generation_.waits() || join.goes_on < generation_.number;
  if (join.goes_on != 0 && before_this && !members.who(from)) {
    return connections_.refuse_outlived(
        from, failed_precondition(
                  "node " + to_string(join.node) + " would go on with generation " +
                  std::to_string(join.goes_on) + " of the run, expected " +
                  (generation_.waits() ? "it to join the next one" : std::to_string(generation_.number))));
  }
  const bool other_run = generation_.waits() || (join.goes_on != 0 && join.goes_on != generation_.number);
  if (other_run || !members.is_here(join)) return connections_.refuse_join(from, failed_precondition(gone));
  const Peer node = Peer::of(join.node);
  if (members.who(from) == node) return welcome_again(join);  // it says so twice
  const Membership::Connection before = members.last_connection_of(node);
  // What waited for it was too much: that it comes back mends nothing.
  Status moved = connections_.losses().unreachable().dropped(node);
  if (moved.is_ok()) moved = service_.may_reconnect(join.node, now);
  if (moved.is_ok()) moved = members.go_on(join, from, now);
  if (!moved.is_ok()) {
    if (moved.code() == StatusCode::kResourceExhausted) connections_.losses().evict(node, moved.message());
    return connections_.refuse_join(from, moved);
  }
  role_.note(As::kReturn, node, join, {}, now);
  connections_.give_up(node, before);
  service_.on_reconnect(join.node);
  if (const Status shared = sharing_.share(from, join.node); !shared.is_ok()) {
    return connections_.refuse(from, shared, /*fatal=*/true);
  }
  connections_.reconnected(from);
  const std::int64_t times = members.moves_of(join.node);
  if (times <= kReconnectsLogged) {
    setup_.log.warn(to_string(node) + "'s connection to " + setup_.name() +
                    " broke, and it goes on over another one: it retransmits " +
                    std::to_string(join.gradients_again) +
                    (join.gradients_again == 1 ? " gradient" : " gradients") + logged_last(times));
  }
  welcome_again(join);
  if (authority_) authority_->node_reconnected(join.node);
}

void NodeSessions::welcome_again(const wire::Join& join) {
  connections_.send_to(Peer::of(join.node),
                       wire::Welcome{setup_.shard, service_.shard()->range(), generation_.number,
                                     service_.is_initialized(), authority_ && authority_->training()});
}

void NodeSessions::on_heartbeat(NodeId from, const wire::Heartbeat& beat) {
  if (!authority_) return;
  late_joins_.answered(from, beat.answer);
  const Status status = authority_->on_heartbeat(from, beat);
  if (status.is_ok()) return;
  connections_.refuse(Peer::of(from), status, /*fatal=*/true);
}

// ---- of a run that is resumed

// It is not welcomed yet: there is no state that a push, a pull or initial parameters could be of, and
// perhaps no authority that a report could be for.
void NodeSessions::on_waiting(Peer from, const wire::Body& body) {
  if (std::holds_alternative<wire::Leave>(body)) {
    forget_waiting(from);
    return setup_.log.info(to_string(from) + " has left before its welcome; it may come again");
  }
  connections_.refuse(
      from,
      failed_precondition(std::string(wire::name_of(body)) + " from " + to_string(from) + " to " +
                          setup_.name() + ", which has not read its checkpoint yet; expected it to " +
                          "wait for its welcome"),
      /*fatal=*/true);
}

// The process of a node that came last is it, as long as it is not welcomed: the one before was killed, or
// connects anew.
void NodeSessions::evict_previous(const wire::PeerId& from, const wire::Join& join) {
  const auto is_it = [&](const Waiting& one) { return one.join.node == join.node; };
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), is_it);
  if (found == waiting_.end() || found->connection == from || !connections_.members().check(join).is_ok()) {
    return;
  }
  const Waiting before = *found;
  forget_waiting(Peer::of(join.node));
  if (before.join.incarnation == join.incarnation) return;
  setup_.log.info("another process of node " + to_string(join.node) +
                  " has joined, instead of the one before");
  connections_.send_to(before.connection,
                       wire::Error{StatusCode::kFailedPrecondition,
                                   "another process of node " + to_string(join.node) + " has joined",
                                   /*fatal=*/true});
}

bool NodeSessions::is_waiting(Peer peer) const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [&](const Waiting& one) { return Peer::of(one.join.node) == peer; });
}

bool NodeSessions::forget_waiting(Peer peer) {
  const auto is_it = [&](const Waiting& one) { return Peer::of(one.join.node) == peer; };
  if (std::erase_if(waiting_, is_it) == 0) return false;
  connections_.unmap(peer);
  connections_.members().forget(peer);
  sharing_.forget(peer.node());
  return true;
}

void NodeSessions::welcome_waiting(Ticks now) {
  for (const Waiting& one : std::exchange(waiting_, {})) welcome(one.join, one.layout, now);
}

}  // namespace paceline::server
