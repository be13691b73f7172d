#include "server/loop/server_ticks.h"

#include <chrono>
#include <utility>

#include "server/run/seconds_text.h"

namespace paceline::server {
namespace {

using What = wire::LocalEvent::What;

// Held grants are announced after 200 ms, leases are seconds: this is fine enough for both.
constexpr std::chrono::milliseconds kTick{50};
// A tick that comes later than this was not late: the whole process stood still.
constexpr std::chrono::milliseconds kPauseAtLeast{500};

}  // namespace

void ServerTicks::begin(Ticks now) {
  last_ = next_heartbeat_ = now;
  schedule();
}

// Then nobody waits for it, however late it comes back to hear how the run ended.
bool ServerTicks::is_done(Peer peer) const {
  return server_.authority && peer.is_node() && server_.authority->is_done(peer.node());
}

void ServerTicks::schedule() {
  timer_.expires_after(kTick);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || server_.end.ended()) return;
    tick();
    drain_();
    if (!server_.end.ended()) schedule();
  });
}

void ServerTicks::tick() {
  if (server_.role.follows()) return server_.replication->following().tick();
  if (server_.replication) server_.replication->check_lease();
  if (server_.end.ended()) return;
  const Ticks now = server_.clock.now();
  const auto stalls = [&] { server_.display.check_stalls([&] { return server_.view.waits(now); }, now); };
  Losses& losses = server_.connections.losses();
  server_.connections.keep_out(now);
  // Who may not act judges nobody either; afterwards it is as if it had stood still.
  if (server_.role.served() && !server_.role.acts()) {
    stalls();
    return server_.display.update(trains(), now);
  }
  // Whoever was stopped (SIGSTOP, a suspended machine, a long apply) finds everybody's last message old.
  const Pause pause{now - last_ - kTick, now};
  if (pause.length > kPauseAtLeast) discount_pause(pause);
  const auto since_last = now - std::exchange(last_, now);
  for (const Peer peer : losses.unreachable().in_doubt(now)) server_.connections.beat(peer, {});
  for (const Unreachable::Entry& lost : losses.take_unreachable(now)) {
    if (!lost.dropped && is_done(lost.peer)) continue;
    lose_(lost.peer, lost.why, lost.dropped ? Loss::kForGood : Loss::kOutOfReach, now);
    // What waits for it, or was lent to it, goes, too.
    if (lost.peer.is_node()) server_.connections.disconnect(lost.peer.node());
  }
  if (server_.replication) server_.replication->serving().check_follower(now);
  if (now >= next_heartbeat_) heartbeat(now);
  if (server_.role.is_held_up(now)) {
    server_.service.discount_pause({since_last, now});  // nobody could take what has not left here
  } else {
    server_.service.tick(now);
  }
  // A node that talks to the authority alone is of no use, so every shard looks; the authority decides.
  for (const Membership::Silence& missed : losses.silent(now)) {
    // Who waits for us says nothing.
    if (server_.sessions.is_waiting(missed.peer) || is_done(missed.peer)) continue;
    lose_(missed.peer, "silent for " + seconds_text(missed.silent), Loss::kOutOfReach, now);
  }
  stalls();
  if (server_.authority) {
    // Before anybody is let in nothing comes of it.
    if (!server_.role.waits_for_follower())
      server_.role.note(Peer::of(server_.setup.shard), {.what = What::kTick}, now);
    server_.authority->tick(now);
    server_.authority->note_progress(server_.view.moved(), now);
  } else if (server_.setup.is_authority()) {
    server_.resuming.check(now);
  } else {
    server_.link.check(now, losses.time_to_reconnect(kAuthority));
  }
  server_.display.update(trains() && !server_.end.ended(), now);
}

void ServerTicks::discount_pause(const Pause& pause) {
  server_.connections.members().discount_pause(pause);
  server_.connections.losses().unreachable().discount_pause(pause);
  server_.sessions.late_joins().discount_pause(pause);
  server_.service.discount_pause(pause);
  if (server_.authority) {
    server_.role.note(Peer::of(server_.setup.shard), {.what = What::kPause, .number = pause.length.count()},
                      pause.known_at);
    server_.authority->discount_pause(pause);
  }
  server_.role.discount_pause(pause);
  server_.link.discount_pause(pause);
  server_.display.discount_pause(pause);
  server_.setup.log.debug("this process stood still for " + seconds_text(pause.length));
}

void ServerTicks::heartbeat(Ticks now) {
  next_heartbeat_ = now + server_.setup.config.cluster.heartbeat;
  if (server_.replication) server_.replication->serving().beat();
  if (!server_.role.acts()) return;  // nobody hears of this one before it serves
  for (const Peer peer : server_.connections.members().present()) {
    server_.connections.beat(peer, {}, peer.is_node() ? nullptr : &server_.channels.with(peer.shard()));
  }
  server_.link.heartbeat(server_.view.moved());
}

}  // namespace paceline::server
