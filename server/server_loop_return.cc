// Nodes that come while training goes on: late, or again, as another process of a node that was here.
//
//   the authority
//     one process of the node is here    the other is to ask again, and the first is asked for an answer:
//                                        where it comes, the first is alive, and the other refused; else its
//                                        lease, or its broken connection, ends it
//     the node was lost, or never came   let in, where training can take it (Authority::may_come)
//   another shard
//     a process of the node was here     to ask again, until the authority says that it is let in
//                                        (NodeAdmitted), which comes behind the loss of the other
//
// Who is to ask again says its Join again a second later, over another connection: all that a join leads to
// happens in the handling of that message, and nothing is kept of one that asks no more.
#include "server/server_loop.h"

namespace paceline::server {

// kUnavailable: not yet. Membership says what does not fit otherwise.
Status ServerLoop::check_admission(const wire::PeerId& from, const wire::Join& join, Ticks now) {
  if (waits_for_resume() || !membership_.check(join).is_ok()) return Status::ok();
  const Peer node = Peer::of(join.node);
  const wire::PeerId* const here = membership_.connection_of(node);
  if (here != nullptr && *here == from) return Status::ok();  // it says so twice
  const bool gone = membership_.is_gone(node);
  if ((here != nullptr || gone) && membership_.incarnation_of(join.node) == join.incarnation) {
    return Status::ok();
  }
  LateJoin& comer = comers_[join.node.value];
  if (!authority_) {
    if (here == nullptr && !gone && comer.admitted == 0) return Status::ok();
    if (here != nullptr || comer.admitted != join.incarnation) {
      return unavailable(to_string(node) + ": the authority has not let this process in yet, and shard " +
                         to_string(shard_) + " knows another");
    }
  } else if (here != nullptr) {
    return authority_->may_lose(join.node) ? may_follow(join, now) : Status::ok();
  }
  if (authority_) PACELINE_RETURN_IF_ERROR(authority_->may_come(join.node));
  if (!gone) return Status::ok();
  PACELINE_RETURN_IF_ERROR(check_generation(join));
  if (!service_.has_parted_with(join.node)) {
    return unavailable(to_string(node) + ": what its process before was sent has not left shard " +
                       to_string(shard_) + " yet");
  }
  drop_stale_join(join.node);
  return Status::ok();
}

// Who lives answers (on_heartbeat()). Whatever else is read of it may be the last words of one that is dead,
// however long they took to be read, and says nothing.
Status ServerLoop::may_follow(const wire::Join& join, Ticks now) {
  const Peer peer = Peer::of(join.node);
  LateJoin& comer = comers_[join.node.value];
  const Status not_yet = unavailable(to_string(peer) + ": a process of it is here, and may be alive");
  if (comer.asks != join.incarnation) {
    const bool its_turn = comer.asks == 0 || now - comer.asked >= config_.cluster.lease;
    if (!its_turn || !acts()) return not_yet;  // a third process waits until this is settled
    log_.debug(to_string(peer) + " is here, and another process of it wants to join: it is asked to answer");
    comer = {join.incarnation, now, false, comer.admitted};
    say_heartbeat(peer, {.answer = comer.asks});
    return not_yet;
  }
  const bool missing = unreachable_.is_missing(peer);  // then it may have ended behind its answer
  if (comer.is_answered && !missing) {
    comer.asks = 0;
    return failed_precondition(to_string(peer) +
                               ": already taken by another process of this run, which is alive");
  }
  if (now - comer.asked < config_.cluster.heartbeat || !acts()) return not_yet;
  if (missing && !membership_.heard_since(peer, comer.asked)) {
    lose(peer, "its connection broke, and another process of it has come", now);
    return not_yet;
  }
  comer.asked = now;
  comer.is_answered = false;
  say_heartbeat(peer, {.answer = comer.asks});  // it may have come back over another connection since
  return not_yet;
}

void ServerLoop::drop_stale_join(NodeId node) {
  const Peer peer = Peer::of(node);
  note(peer, {.what = wire::LocalEvent::What::kForgotten}, ticks());
  comers_[node.value].asks = 0;
  unreachable_.forget(peer);
  membership_.forget(peer);
}

void ServerLoop::retry_later(const wire::PeerId& from, NodeId node, const Status& why) {
  log_.debug("a process of node " + to_string(node) + " is to ask again: " + why.message());
  if (router_->count_rejected(from)) return;
  send_to(from, wire::Error{why.code(), why.message(), /*fatal=*/false});
}

// At another shard. A process that only this shard knew is gone, whether it knows that or not.
void ServerLoop::on_admitted(const wire::NodeAdmitted& admitted) {
  if (admitted.node.value >= config_.cluster.nodes) return;
  comers_[admitted.node.value].admitted = admitted.incarnation;
  const Peer node = Peer::of(admitted.node);
  const bool other = membership_.connection_of(node) != nullptr &&
                     membership_.incarnation_of(admitted.node) != admitted.incarnation;
  if (!other || waits_for_resume()) return;  // then the last to come is let in (evict_previous)
  remove(node);
  role_.forget(admitted.node);
  on_shard_status(
      service_.handle(Peer::of(kAuthority), {wire::NodeLost{admitted.node, "another one is let in"}, {}}));
}

// Of one that is not here any more, while another one is.
bool ServerLoop::is_of_a_former_process(const wire::NodeLost& lost) const {
  if (authority_ || lost.node.value >= config_.cluster.nodes) return false;
  const bool here = membership_.connection_of(Peer::of(lost.node)) != nullptr;
  return here && membership_.incarnation_of(lost.node) != lost.incarnation;
}

}  // namespace paceline::server
