#include "server/own_shard.h"

#include <boost/asio/post.hpp>

namespace paceline::server {

bool OwnShard::takes(const wire::Body& body) {
  return std::holds_alternative<wire::Push>(body) || std::holds_alternative<wire::Withdraw>(body) ||
         std::holds_alternative<wire::Pull>(body) || std::holds_alternative<wire::InitialParameters>(body) ||
         std::holds_alternative<wire::NodeState>(body) || std::holds_alternative<wire::StateWanted>(body);
}

// A decision, or what makes a gradient whole, where the shard is so large that nobody is to wait for it with
// what was said before.
bool OwnShard::takes_long(const wire::Body& body) const {
  constexpr std::int64_t kQuickFloats = 64 * 1024;
  if (service_.shard() == nullptr || service_.shard()->range().size() <= kQuickFloats) return false;
  const auto* push = std::get_if<wire::Push>(&body);
  return std::holds_alternative<wire::ApplyDecision>(body) || (push != nullptr && push->last);
}

void OwnShard::on_message(Peer from, wire::Message message) {
  // The authority's word to its own shard follows from what the authority was told. What a pull is answered
  // is no event: it changes nothing.
  const wire::Body& body = message.body;
  const bool follows_by_itself = around_.authority && !from.is_node();
  if (!follows_by_itself && !(from.is_node() && std::holds_alternative<wire::Pull>(body))) {
    around_.role.note(wire::LogEntry::As::kToShard, from, body, message.payload, around_.clock.now());
  }
  PeerConnections& connections = around_.connections;
  if (takes_long(body)) connections.router().flush();
  if (const auto* admitted = std::get_if<wire::NodeAdmitted>(&body)) {
    if (!around_.sessions.late_joins().admitted(*admitted)) return;
    return on_status(
        service_.handle(Peer::of(kAuthority), {wire::NodeLost{admitted->node, "another one is let in"}, {}}));
  }
  if (const auto* lost = std::get_if<wire::NodeLost>(&body)) {
    if (around_.sessions.late_joins().is_of_a_former_process(*lost)) return;
    around_.role.forget(lost->node);
    const Peer node = Peer::of(lost->node);
    if (lost->node.value < around_.setup.config.cluster.nodes && !connections.members().is_gone(node)) {
      connections.remove(node);
      const std::string how = lost->why.empty() ? " has left" : " lost: " + lost->why;
      if (!around_.authority) around_.setup.log.warn(to_string(node) + how);
    }
  }
  on_status(service_.handle(from, std::move(message)));
}

void OwnShard::on_status(const Status& state) {
  if (state.is_ok()) return;
  ReplicaRole& role = around_.role;
  if (role.follows()) return around_.replication->following().note_fault(state);
  // The shard's parameters are no longer what the authority takes them for.
  if (around_.authority) {
    const Ticks now = around_.clock.now();
    role.note(Peer::of(around_.setup.shard),
              {wire::LocalEvent::What::kFail, 0, state.code(), state.message()}, now);
    return around_.authority->fail(state, now);
  }
  around_.setup.is_authority() ? around_.resuming.fail(state) : around_.link.leave_with(state);
}

void OwnShard::on_replies_left() {
  if (around_.end.ended()) return;
  on_status(service_.on_replies_left());
  drain_();
}

void OwnShard::work_ahead() {
  if (works_ahead_ || !service_.may_work_ahead()) return;
  works_ahead_ = true;
  boost::asio::post(io_, [this] { do_ahead(); });
}

void OwnShard::do_ahead() {
  works_ahead_ = false;
  if (around_.end.ended()) return;
  if (!service_.work_ahead()) return;
  works_ahead_ = true;
  boost::asio::post(io_, [this] { do_ahead(); });
}

}  // namespace paceline::server
