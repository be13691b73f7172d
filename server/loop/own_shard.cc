#include "server/loop/own_shard.h"

#include <boost/asio/post.hpp>

namespace paceline::server {

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

void OwnShard::on_replies_sent() {
  if (around_.end.ended()) return;
  on_status(service_.on_replies_sent());
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
