#include "server/loop/server_requests.h"

#include <boost/asio/post.hpp>

namespace paceline::server {

using What = wire::LocalEvent::What;

void ServerRequests::stop(const std::string& reason) {
  boost::asio::post(io_, [this, reason] {
    if (!of_.end.ended()) stop_now(reason);
  });
}

void ServerRequests::stop_now(const std::string& reason) {
  const bool is_authority = of_.setup.is_authority();
  if (of_.role.follows()) return of_.end.end(aborted(reason));
  const bool has_begun = is_authority ? static_cast<bool>(of_.authority) : of_.link.is_welcomed();
  // The next one is told, too (main.cc).
  if (of_.end.reconfigures() || (of_.authority && of_.authority->reconfigures())) return;
  if (of_.setup.options.role == ServerOptions::Role::kGoesOn && !has_begun) {
    return of_.resuming.stop_when_resumed(reason);  // once it knows the others, which are to stop as well
  }
  if (is_authority && !of_.authority) return of_.resuming.fail(aborted(reason));
  if (of_.authority) {
    const Ticks now = of_.clock.now();
    of_.role.note(Peer::of(of_.setup.shard), {.what = What::kStop, .text = reason}, now);
    of_.authority->stop(reason, now);
  } else {
    of_.link.ask_to_stop(reason);
  }
  drain_();
}

void ServerRequests::program_ended(NodeId node, const std::string& how) {
  boost::asio::post(io_, [this, node, how] {
    if (of_.end.ended() || !of_.authority || of_.role.follows()) return;
    of_.authority->program_ended(node, how, of_.clock.now());
    drain_();
  });
}

void ServerRequests::leave(const std::string& reason) {
  boost::asio::post(io_, [this, reason] {
    if (of_.end.ended()) return;
    of_.role.follows() ? of_.end.end(aborted(reason)) : of_.link.leave_with(aborted(reason));
  });
}

void ServerRequests::save_checkpoint() {
  boost::asio::post(io_, [this] {
    if (!of_.end.ended()) save_now();
  });
}

void ServerRequests::save_now() {
  if (!of_.authority || of_.role.follows()) {
    const bool waits = of_.setup.is_authority() && !of_.role.follows();
    return of_.setup.log.warn(
        std::string("asked for a checkpoint: ") +
        (waits ? "the run has not gone on yet"
               : "the server that serves shard 0 is to be asked, all shards save with it"));
  }
  of_.role.note(Peer::of(of_.setup.shard), {.what = What::kSave}, of_.clock.now());
  of_.authority->save_checkpoint();
  drain_();
}

void ServerRequests::explain() {
  boost::asio::post(io_, [this] {
    const Ticks now = of_.clock.now();
    if (!of_.end.ended()) of_.display.explain(of_.view.waits(now), now);
  });
}

}  // namespace paceline::server
