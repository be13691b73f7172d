#include "server/sessions/late_joins.h"

namespace paceline::server {

Status LateJoins::check(const wire::PeerId& from, const wire::Join& join, Ticks now) {
  const Membership& members = connections_.members();
  if (generation_.waits() || !members.check(join).is_ok()) return Status::ok();
  const Peer node = Peer::of(join.node);
  const bool here = members.is_present(node);
  if (here && members.who(from) == node) return Status::ok();  // it says so twice
  const bool gone = members.is_gone(node);
  if ((here || gone) && members.incarnation_of(join.node) == join.incarnation) return Status::ok();
  LateJoin& late = late_[join.node.value];
  if (!authority_) {
    if (!here && !gone && late.admitted == 0) return Status::ok();
    if (here || late.admitted != join.incarnation) {
      return unavailable(to_string(node) + ": the authority has not let this process in yet, and " +
                         setup_.name() + " knows another");
    }
  } else if (here) {
    return authority_->may_lose(join.node) ? may_follow(join, now) : Status::ok();
  }
  if (authority_) PACELINE_RETURN_IF_ERROR(authority_->may_come(join.node));
  if (!gone) return Status::ok();
  PACELINE_RETURN_IF_ERROR(generation_.check(join, setup_.shard));
  if (!service_.has_parted_with(join.node)) {
    return unavailable(to_string(node) + ": what its process before was sent has not left " + setup_.name() +
                       " yet");
  }
  forget(join.node);
  return Status::ok();
}

// Who lives answers (answered()). Whatever else is read of it may be the last words of one that is dead,
// however long they took to be read, and says nothing.
Status LateJoins::may_follow(const wire::Join& join, Ticks now) {
  const Peer peer = Peer::of(join.node);
  LateJoin& late = late_[join.node.value];
  const Status not_yet = unavailable(to_string(peer) + ": a process of it is here, and may be alive");
  if (late.asks != join.incarnation) {
    const bool its_turn = late.asks == 0 || now - late.asked >= setup_.config.cluster.lease;
    if (!its_turn || !role_.acts()) return not_yet;  // a third process waits until this is settled
    setup_.log.debug(to_string(peer) +
                     " is here, and another process of it wants to join: it is asked to answer");
    late = {join.incarnation, now, false, late.admitted};
    connections_.beat(peer, {.answer = late.asks});
    return not_yet;
  }
  const bool missing =
      connections_.losses().unreachable().is_missing(peer);  // then it may have ended after its answer
  if (late.is_answered && !missing) {
    late.asks = 0;
    return failed_precondition(to_string(peer) +
                               ": already taken by another process of this run, which is alive");
  }
  if (now - late.asked < setup_.config.cluster.heartbeat || !role_.acts()) return not_yet;
  if (missing && !connections_.members().seen_since(peer, late.asked)) {
    connections_.losses().evict(peer, "its connection broke, and another process of it has come");
    return not_yet;
  }
  late.asked = now;
  late.is_answered = false;
  connections_.beat(peer, {.answer = late.asks});  // it may have come back over another connection since
  return not_yet;
}

void LateJoins::answered(NodeId node, std::uint64_t answer) {
  LateJoin& late = late_[node.value];
  if (late.asks != 0 && answer == late.asks) late.is_answered = true;
}

void LateJoins::forget(NodeId node) {
  const Peer peer = Peer::of(node);
  role_.note(peer, {.what = wire::LocalEvent::What::kForgotten}, clock_.now());
  late_[node.value].asks = 0;
  connections_.losses().unreachable().forget(peer);
  connections_.members().forget(peer);
}

// A process that only this shard knew is gone, whether it knows that or not.
bool LateJoins::admitted(const wire::NodeAdmitted& admitted) {
  if (admitted.node.value >= setup_.config.cluster.nodes) return false;
  late_[admitted.node.value].admitted = admitted.incarnation;
  const Peer node = Peer::of(admitted.node);
  const Membership& members = connections_.members();
  const bool other =
      members.is_present(node) && members.incarnation_of(admitted.node) != admitted.incarnation;
  if (!other || generation_.waits()) return false;  // then the last to come is let in (NodeSessions)
  connections_.remove(node);
  role_.forget(admitted.node);
  return true;
}

bool LateJoins::is_of_a_former_process(const wire::NodeLost& lost) const {
  if (authority_ || lost.node.value >= setup_.config.cluster.nodes) return false;
  return connections_.members().is_present(Peer::of(lost.node)) &&
         connections_.members().incarnation_of(lost.node) != lost.incarnation;
}

void LateJoins::discount_pause(const Pause& pause) {
  for (LateJoin& late : late_) late.asked = pause.discounted(late.asked);
}

}  // namespace paceline::server
